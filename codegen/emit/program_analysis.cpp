// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/program_analysis.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>
#include <sinter/scalar_op.h>

#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

[[noreturn]] void contradiction(const KernelRequest& request, const std::string& what) {
  throw Error(ErrorCode::kInternal,
              fmt::format("loop program of kernel '{}': {}", request.name, what));
}

}  // namespace

ProgramAnalysis::ProgramAnalysis(const KernelRequest& request, ExprTable& exprs)
    : request_(&request), exprs_(&exprs) {
  check();
  for (std::size_t d = 0; d < rank(); ++d) {
    if (extent(d) == ir::Dim(1)) continue;
    (d < outer_rank() ? outer_ : inner_) |= dim_bit(d);
  }
  find_node_dims();
  find_values();
  find_live();
}

void ProgramAnalysis::check() const {
  const auto& p = program();
  if (p.extents.size() > 60)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("kernel '{}' loops over {} dimensions; at most 60 are supported",
                            request_->name, p.extents.size()));
  if (p.inner_dims > p.extents.size()) contradiction(*request_, "more inner dimensions than loops");
  if (request_->buffer_types.size() != p.buffers.size())
    contradiction(*request_, "a type is missing for a buffer");
  for (const auto& access : p.accesses) {
    if (access->buffer >= p.buffers.size() || access->strides.size() != p.extents.size())
      contradiction(*request_, "an access does not fit the loops");
  }
  for (std::size_t i = 0; i < p.instrs.size(); ++i) {
    const auto& instr = *p.instrs[i];
    for (std::uint32_t arg : instr.args)
      if (arg >= i) contradiction(*request_, fmt::format("instruction {} uses a later one", i));
    const bool memory = plan::is_memory(instr.kind);
    if (memory && instr.access >= p.accesses.size())
      contradiction(*request_, fmt::format("instruction {} has no access", i));
    std::size_t arity = 0;
    if (instr.kind == InstrKind::Op && instr.op < kScalarOpCount)
      arity = static_cast<std::size_t>(arity_of(static_cast<ScalarOp>(instr.op)));
    else if (instr.kind == InstrKind::Op)
      contradiction(*request_, fmt::format("instruction {} has unknown operator {}", i, instr.op));
    else if (instr.kind == InstrKind::Reduce || instr.kind == InstrKind::Scan ||
             plan::is_store(instr.kind))
      arity = 1;
    if (instr.args.size() != arity)
      contradiction(*request_, fmt::format("instruction {} has {} operands, not {}", i,
                                           instr.args.size(), arity));
    if (instr.kind == InstrKind::Index && instr.dim >= p.extents.size())
      contradiction(*request_, fmt::format("instruction {} indexes no loop", i));
  }
}

int ProgramAnalysis::last_dim(DimSet set) const {
  for (std::size_t d = rank(); d-- > 0;)
    if ((set & dim_bit(d)) != 0) return static_cast<int>(d);
  return -1;
}

Dim ProgramAnalysis::size_of_dims(DimSet set) const {
  Dim product = 1;
  for (std::size_t d = 0; d < rank(); ++d)
    if ((set & dim_bit(d)) != 0) product *= extent(d);
  return product;
}

void ProgramAnalysis::find_node_dims() {
  const DimSet varying = outer_ | inner_;
  for (const auto& node : program().index_nodes) {
    const std::size_t here = node_dims_.size();
    DimSet dims = 0;
    if (node.op() == ExprOp::Symbol) {
      if (node.a() >= rank()) contradiction(*request_, "an index node names no loop");
      dims = dim_bit(node.a()) & varying;
    } else if (node.op() != ExprOp::Constant) {
      if (node.a() >= here || node.b() >= here)
        contradiction(*request_, "an index node uses a later one");
      dims = node_dims_[node.a()] | node_dims_[node.b()];
    }
    node_dims_.push_back(dims);
  }
}

void ProgramAnalysis::find_values() {
  const auto& p = program();
  const DimSet varying = outer_ | inner_;
  read_.assign(p.buffers.size(), false);
  written_.assign(p.buffers.size(), false);
  access_dims_.assign(p.accesses.size(), 0);
  address_dims_ = access_dims_;
  values_.resize(p.instrs.size());
  for (std::size_t i = 0; i < p.instrs.size(); ++i) {
    const auto& instr = *p.instrs[i];
    ValueInfo& info = values_[i];
    for (std::uint32_t arg : instr.args) {
      info.dims |= values_[arg].dims;
      info.stage = std::max(info.stage, values_[arg].stage);
    }
    if (instr.kind == InstrKind::Index) info.dims = dim_bit(instr.dim) & varying;
    if (instr.kind == InstrKind::Reduce) {
      info.dims &= ~inner_;
      stages_ = std::max(stages_, ++info.stage);
    }
    if (instr.kind == InstrKind::Scan) {
      info.dims |= inner_;
      stages_ = std::max(stages_, ++info.stage);
      scans_ = true;
    }
    if (!plan::is_memory(instr.kind)) continue;
    const auto& access = *p.accesses[instr.access];
    DimSet& dims = access_dims_[instr.access];
    for (std::size_t d = 0; d < rank(); ++d)
      if (exprs_->dim(access.strides[d]) != ir::Dim(0)) dims |= dim_bit(d) & varying;
    for (const auto& gather : access.gathers) {
      if (gather.value() >= i) contradiction(*request_, "a gather uses a later value");
      dims |= values_[gather.value()].dims;
      info.stage = std::max(info.stage, values_[gather.value()].stage);
    }
    for (std::uint32_t node : access.nonaffine) {
      if (node >= node_dims_.size()) contradiction(*request_, "an access has no such index node");
      dims |= node_dims_[node];
    }
    address_dims_[instr.access] = dims;
    for (const auto& guard : access.guards) {
      if (guard.index() >= node_dims_.size())
        contradiction(*request_, "a guard has no such index node");
      dims |= node_dims_[guard.index()];
    }
    info.dims |= dims;
    if (instr.kind == InstrKind::Scatter) {
      scatters_ = true;
      if (instr.op != plan::kScatterReplaces) {
        info.dims |= inner_;  // once for each element, even if all go to the same index
        combines_ = true;
      }
    }
    (instr.kind == InstrKind::Load ? read_ : written_)[access.buffer] = true;
  }
}

void ProgramAnalysis::find_live() {
  for (std::size_t i = instr_count(); i-- > 0;) {
    const auto& instr = this->instr(i);
    if (plan::is_store(instr.kind)) values_[i].live = true;
    if (!values_[i].live) continue;
    for (std::uint32_t arg : instr.args) values_[arg].live = true;
    if (plan::is_memory(instr.kind))
      for (const auto& gather : access(instr.access).gathers) values_[gather.value()].live = true;
  }
  stages_ = 0;
  for (std::size_t i = 0; i < instr_count(); ++i) {
    if (!values_[i].live) continue;
    live_.push_back(i);
    if (plan::is_memory(instr(i).kind)) live_accesses_.push_back(i);
    stages_ = std::max(stages_, values_[i].stage);
  }
}

std::vector<std::size_t> ProgramAnalysis::live(InstrKind kind) const {
  std::vector<std::size_t> found;
  for (const std::size_t i : live_)
    if (instr(i).kind == kind) found.push_back(i);
  return found;
}

}  // namespace sinter::codegen
