// SPDX-License-Identifier: Apache-2.0
// A cuBLASLt that computes float32 products on the host, as the library's documentation says it
// does, and checks the shapes of all. It works on streams of the fake driver.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/cublaslt/cublaslt.h"

namespace sinter::testing {

struct FakeAlgorithm {
  int id = 0;
  std::size_t workspace = 0;
  std::uint32_t reduction_scheme = 0;
  double microseconds = 10;  // on the fake driver's clock
  bool runs = true;          // false: cublasLtMatmul refuses it
  bool checks = true;        // false: cublasLtMatmulAlgoCheck refuses it
};

struct FakeCublasLt {
  void reset();

  std::size_t version = 130000;
  std::vector<FakeAlgorithm> algorithms{{}};  // what the heuristic offers, best first
  bool computes = true;  // false: a product is checked and counted, and its result left alone
  int matmuls = 0;       // that ran
  int heuristics = 0;
  std::vector<int> algorithms_run;
  std::vector<std::uint32_t> alignments;  // of a, b, c and d, that the heuristic was asked with
  int handles = 0, layouts = 0, descriptors = 0, preferences = 0;
  int alive() const { return handles + layouts + descriptors + preferences; }
};

FakeCublasLt& fake_cublaslt();

/// For CudaEnvironment.
std::shared_ptr<const runtime::CublasLt> load_fake_cublaslt();

}  // namespace sinter::testing
