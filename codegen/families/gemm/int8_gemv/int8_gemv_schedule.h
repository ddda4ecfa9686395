// Products of one or a few rows with quantized weights, in integers: activations are decomposed
// into int8 digits, weights stay as they are. See Int8Tile in
// codegen/families/gemm/int8_gemv/int8_gemv.cuh.
#pragma once

#include "codegen/families/gemm/small_m/small_m_schedule.h"

namespace sinter::codegen {

/// A SmallM tile whose warps all share k.
struct Int8Gemv final : SmallM {
  int digits;  // of an activation: two or three

  Int8Gemv(int along_n, int along_k, int of_activation)
      : SmallM(along_n, along_k), digits(of_activation) {}

  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override;
  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override;
  int blocks_at_once(const GemmProblem& problem, const GemmSchedule& s) const override;
  double estimate(const GemmProblem& problem, const GemmSchedule& s, std::int64_t m) const override;
  std::string to_string(const GemmSchedule& s) const override;
  std::string header(const GemmProgram& product) const override;
  std::string type(const GemmText& text) const override;
};

/// Steps of a block.
int count_steps(const GemmProgram& product, const GemmSchedule& s);

extern const GemmKernel kInt8GemvKernel;

}  // namespace sinter::codegen
