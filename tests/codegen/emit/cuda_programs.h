// SPDX-License-Identifier: Apache-2.0
// Loop programs by hand, for tests of the CUDA emitter.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"
#include "ir/dim/dim.h"
#include "ir/graph.h"

namespace sinter::test {

/// A loop program under construction. Instructions and buffers are named by their numbers.
class ProgramBuilder {
 public:
  ProgramBuilder(codegen::ExprTable& exprs, std::vector<ir::Dim> extents, int inner_dims);

  /// A buffer of `elements`.
  std::uint32_t buffer(DType type, const ir::Dim& elements);
  /// A buffer laid out densely over the loops in `dims` (in that order), and an access to it.
  std::uint32_t dense(DType type, const std::vector<int>& dims);
  std::uint32_t access(std::uint32_t buffer, const std::vector<ir::Dim>& strides,
                       const ir::Dim& offset = 0);
  plan::fb::AccessT& at(std::uint32_t access) { return *program.accesses[access]; }
  std::uint32_t node(plan::fb::ExprOp op, std::uint32_t a, std::uint32_t b = 0);
  std::uint32_t node_size(const ir::Dim& dim) {
    return node(plan::fb::ExprOp::Constant, exprs_->intern(dim));
  }
  std::uint32_t node_loop(int d) {
    return node(plan::fb::ExprOp::Symbol, static_cast<std::uint32_t>(d));
  }

  std::uint32_t load(std::uint32_t access);
  std::uint32_t constant(DType type, double value);
  std::uint32_t index(DType type, int d);
  std::uint32_t size(DType type, const ir::Dim& dim);
  std::uint32_t op(ScalarOp op, DType type, const std::vector<std::uint32_t>& args);
  /// The same with the type of the operands, or bool for what yields it.
  std::uint32_t op(ScalarOp op, const std::vector<std::uint32_t>& args);
  std::uint32_t reduce(Combine combine, std::uint32_t value);
  void store(std::uint32_t access, std::uint32_t value);

  DType type_of(std::uint32_t instr) const {
    return static_cast<DType>(program.instrs[instr]->dtype);
  }
  codegen::KernelRequest request(const std::string& name) const;

  plan::fb::LoopProgramT program;
  std::vector<ir::Dim> extents;
  std::vector<DType> types;              // of buffers; plan buffers are numbered alike
  std::vector<ir::Dim> elements;         // of buffers
  std::string schedule;                  // the one to use; empty: choose
  codegen::ChosenSchedules chosen = {};  // in place of the rule's
  /// Integer inputs are drawn from [low, high); of buffers not named here from [-3, 3).
  struct Range {
    ir::Dim low, high;
  };
  std::map<std::uint32_t, Range> ranges;

 private:
  std::uint32_t add(plan::fb::InstrT instr);
  codegen::ExprTable* exprs_;
};

/// The lowered body of a region, in graph text.
ProgramBuilder lowered_program(codegen::ExprTable& exprs, const ir::Graph& body);

/// GroupNorm times its own tanh, of images with channels last: `groups` of `channels` each, in
/// `places` places.
ProgramBuilder group_norm(codegen::ExprTable& exprs, std::int64_t images, std::int64_t groups,
                          std::int64_t places, std::int64_t channels, DType type);

/// y = relu(layernorm(x) * scale + bias) + x over rows of `columns`.
ProgramBuilder layer_norm(codegen::ExprTable& exprs, const ir::Dim& rows, const ir::Dim& columns,
                          DType type);
/// softmax(x * 0.125 + mask), mask shared by `heads` rows.
ProgramBuilder masked_softmax(codegen::ExprTable& exprs, const ir::Dim& batch, const ir::Dim& heads,
                              const ir::Dim& columns, DType type);

}  // namespace sinter::test
