// SPDX-License-Identifier: Apache-2.0
#ifdef SINTER_WITH_CUDA
#include "cuda_programs.h"

#include "codegen/program/loop_lowering.h"

namespace sinter::test {

using ir::Dim;
using plan::fb::InstrKind;

ProgramBuilder::ProgramBuilder(codegen::ExprTable& exprs, std::vector<Dim> loop_extents,
                               int inner_dims)
    : extents(std::move(loop_extents)), exprs_(&exprs) {
  for (const Dim& extent : extents) program.extents.push_back(exprs.intern(extent));
  program.inner_dims = static_cast<std::uint32_t>(inner_dims);
}

std::uint32_t ProgramBuilder::buffer(DType type, const Dim& count) {
  program.buffers.push_back(static_cast<std::uint32_t>(types.size()));
  types.push_back(type);
  elements.push_back(count);
  return program.buffers.back();
}

std::uint32_t ProgramBuilder::dense(DType type, const std::vector<int>& dims) {
  std::vector<Dim> strides(extents.size(), Dim(0));
  Dim stride = 1;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    strides[static_cast<std::size_t>(*d)] = stride;
    stride = stride * extents[static_cast<std::size_t>(*d)];
  }
  return access(buffer(type, stride), strides);
}

std::uint32_t ProgramBuilder::access(std::uint32_t buffer, const std::vector<Dim>& strides,
                                     const Dim& offset) {
  auto result = std::make_unique<plan::fb::AccessT>();
  result->buffer = buffer;
  result->offset = exprs_->intern(offset);
  for (const Dim& stride : strides) result->strides.push_back(exprs_->intern(stride));
  program.accesses.push_back(std::move(result));
  return static_cast<std::uint32_t>(program.accesses.size() - 1);
}

std::uint32_t ProgramBuilder::node(plan::fb::ExprOp op, std::uint32_t a, std::uint32_t b) {
  program.index_nodes.emplace_back(op, a, b);
  return static_cast<std::uint32_t>(program.index_nodes.size() - 1);
}

std::uint32_t ProgramBuilder::add(plan::fb::InstrT instr) {
  program.instrs.push_back(std::make_unique<plan::fb::InstrT>(std::move(instr)));
  return static_cast<std::uint32_t>(program.instrs.size() - 1);
}

std::uint32_t ProgramBuilder::load(std::uint32_t access) {
  plan::fb::InstrT instr;
  instr.kind = InstrKind::Load;
  instr.dtype = static_cast<std::uint8_t>(compute_type(types[at(access).buffer]));
  instr.access = access;
  return add(std::move(instr));
}

std::uint32_t ProgramBuilder::constant(DType type, double value) {
  plan::fb::InstrT instr;
  instr.kind = InstrKind::Constant;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.constant_float = value;
  instr.constant_int = is_float(type) ? 0 : static_cast<std::int64_t>(value);
  return add(std::move(instr));
}

std::uint32_t ProgramBuilder::index(DType type, int d) {
  plan::fb::InstrT instr;
  instr.kind = InstrKind::Index;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.dim = static_cast<std::uint32_t>(d);
  return add(std::move(instr));
}

std::uint32_t ProgramBuilder::size(DType type, const Dim& dim) {
  plan::fb::InstrT instr;
  instr.kind = InstrKind::Size;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.expression = exprs_->intern(dim);
  return add(std::move(instr));
}

std::uint32_t ProgramBuilder::op(ScalarOp op, DType type, const std::vector<std::uint32_t>& args) {
  plan::fb::InstrT instr;
  instr.kind = InstrKind::Op;
  instr.op = static_cast<std::uint8_t>(op);
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.args = args;
  return add(std::move(instr));
}

std::uint32_t ProgramBuilder::op(ScalarOp op, const std::vector<std::uint32_t>& args) {
  return this->op(op, yields_bool(op) ? DType::kBool : type_of(args.back()), args);
}

std::uint32_t ProgramBuilder::reduce(Combine combine, std::uint32_t value) {
  plan::fb::InstrT instr;
  instr.kind = InstrKind::Reduce;
  instr.op = static_cast<std::uint8_t>(combine);
  instr.dtype = static_cast<std::uint8_t>(type_of(value));
  instr.args = {value};
  return add(std::move(instr));
}

void ProgramBuilder::store(std::uint32_t access, std::uint32_t value) {
  plan::fb::InstrT instr;
  instr.kind = InstrKind::Store;
  instr.dtype = static_cast<std::uint8_t>(type_of(value));
  instr.access = access;
  instr.args = {value};
  add(std::move(instr));
}

codegen::KernelRequest ProgramBuilder::request(const std::string& name) const {
  codegen::KernelRequest request;
  request.program = &program;
  request.name = name;
  request.origins = {"/" + name + " (Test)"};
  request.schedule = schedule;
  request.requested.chosen = &chosen;
  request.requested.clusters = true;
  for (const std::uint32_t buffer : program.buffers) request.buffer_types.push_back(types[buffer]);
  return request;
}

ProgramBuilder lowered_program(codegen::ExprTable& exprs, const ir::Graph& body) {
  ProgramBuilder p(exprs, {}, 0);
  std::vector<std::uint32_t> inputs, outputs;
  const auto add = [&](ir::ValueId value, std::vector<std::uint32_t>& list) {
    const ir::TensorType& type = body.type(value);
    list.push_back(p.buffer(type.dtype, ir::element_count(type.shape)));
  };
  for (const auto& input : body.inputs()) add(input, inputs);
  for (const auto& output : body.outputs()) add(output, outputs);
  p.program = codegen::lower_region(body, inputs, outputs, exprs);
  return p;
}

namespace {

/// x less its mean over a row of `count`, over its deviation; and the mean.
std::pair<std::uint32_t, std::uint32_t> normalised(ProgramBuilder& p, std::uint32_t x,
                                                   std::uint32_t count) {
  const auto mean = p.op(ScalarOp::kDiv, {p.reduce(Combine::kSum, x), count});
  const auto centred = p.op(ScalarOp::kSub, {x, mean});
  const auto square = p.op(ScalarOp::kMul, {centred, centred});
  const auto variance = p.op(ScalarOp::kDiv, {p.reduce(Combine::kSum, square), count});
  const auto deviation =
      p.op(ScalarOp::kRsqrt, {p.op(ScalarOp::kAdd, {variance, p.constant(p.type_of(x), 1e-5)})});
  return {p.op(ScalarOp::kMul, {centred, deviation}), mean};
}

}  // namespace

ProgramBuilder layer_norm(codegen::ExprTable& exprs, const Dim& rows, const Dim& columns,
                          DType type) {
  ProgramBuilder p(exprs, {rows, columns}, 1);
  const DType c = compute_type(type);
  const auto x = p.load(p.dense(type, {0, 1}));
  const auto scale = p.load(p.dense(type, {1}));
  const auto bias = p.load(p.dense(type, {1}));
  const auto count = p.size(c, columns);
  const auto [unscaled, mean] = normalised(p, x, count);
  const auto normal = p.op(ScalarOp::kMul, {unscaled, scale});
  const auto shifted = p.op(ScalarOp::kAdd, {normal, bias});
  const auto relu = p.op(ScalarOp::kMax, {shifted, p.constant(c, 0)});
  p.store(p.dense(type, {0, 1}), p.op(ScalarOp::kAdd, {relu, x}));
  return p;
}

ProgramBuilder group_norm(codegen::ExprTable& exprs, std::int64_t images, std::int64_t groups,
                          std::int64_t places, std::int64_t channels, DType type) {
  ProgramBuilder p(exprs, {images, groups, places, channels}, 2);
  const DType c = compute_type(type);
  const auto x = p.load(p.dense(type, {0, 2, 1, 3}));
  const auto scale = p.load(p.dense(type, {1, 3}));
  const auto count = p.size(c, Dim(places * channels));
  const auto [unscaled, mean] = normalised(p, x, count);
  const auto normal = p.op(ScalarOp::kMul, {unscaled, scale});
  const auto gate = p.op(ScalarOp::kTanh, {normal});
  p.store(p.dense(type, {0, 2, 1, 3}), p.op(ScalarOp::kMul, {normal, gate}));
  p.store(p.dense(type, {0, 1}), mean);
  return p;
}

ProgramBuilder masked_softmax(codegen::ExprTable& exprs, const Dim& batch, const Dim& heads,
                              const Dim& columns, DType type) {
  ProgramBuilder p(exprs, {batch, heads, columns}, 1);
  const DType c = compute_type(type);
  const auto x = p.load(p.dense(type, {0, 1, 2}));
  const auto mask = p.load(p.dense(type, {0, 2}));
  const auto scaled = p.op(ScalarOp::kMul, {x, p.constant(c, 0.125)});
  const auto logit = p.op(ScalarOp::kAdd, {scaled, mask});
  const auto largest = p.reduce(Combine::kMax, logit);
  const auto power = p.op(ScalarOp::kExp, {p.op(ScalarOp::kSub, {logit, largest})});
  const auto sum = p.reduce(Combine::kSum, power);
  p.store(p.dense(type, {0, 1, 2}), p.op(ScalarOp::kDiv, {power, sum}));
  return p;
}

}  // namespace sinter::test
#endif
