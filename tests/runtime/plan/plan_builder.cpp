// SPDX-License-Identifier: Apache-2.0
#include "plan_builder.h"

#include <algorithm>
#include <set>

namespace sinter::testing {

LoopBuilder::LoopBuilder(std::vector<Id> extents, Id inner_dims) {
  program.extents = std::move(extents);
  program.inner_dims = inner_dims;
}

Id LoopBuilder::access(Id buffer, Id offset, std::vector<Id> strides) {
  auto& buffers = program.buffers;
  auto found = std::find(buffers.begin(), buffers.end(), buffer);
  if (found == buffers.end()) found = buffers.insert(buffers.end(), buffer);
  auto access = std::make_unique<fb::AccessT>();
  access->buffer = static_cast<Id>(found - buffers.begin());
  access->offset = offset;
  access->strides = std::move(strides);
  program.accesses.push_back(std::move(access));
  return static_cast<Id>(program.accesses.size() - 1);
}

Id LoopBuilder::index_node(fb::ExprOp op, Id a, Id b) {
  program.index_nodes.emplace_back(op, a, b);
  return static_cast<Id>(program.index_nodes.size() - 1);
}

Id LoopBuilder::add(fb::InstrT instr) {
  program.instrs.push_back(std::make_unique<fb::InstrT>(std::move(instr)));
  return static_cast<Id>(program.instrs.size() - 1);
}

Id LoopBuilder::load(Id access, DType type) {
  fb::InstrT instr;
  instr.kind = fb::InstrKind::Load;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.access = access;
  return add(std::move(instr));
}

Id LoopBuilder::constant(double value, DType type) {
  fb::InstrT instr;
  instr.kind = fb::InstrKind::Constant;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.constant_float = value;
  instr.constant_int = is_float(type) ? 0 : static_cast<std::int64_t>(value);
  return add(std::move(instr));
}

Id LoopBuilder::op(ScalarOp op, std::vector<Id> args, DType type) {
  fb::InstrT instr;
  instr.kind = fb::InstrKind::Op;
  instr.op = static_cast<std::uint8_t>(op);
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.args = std::move(args);
  return add(std::move(instr));
}

Id LoopBuilder::reduce(Combine combine, Id value, DType type) {
  fb::InstrT instr;
  instr.kind = fb::InstrKind::Reduce;
  instr.op = static_cast<std::uint8_t>(combine);
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.args = {value};
  return add(std::move(instr));
}

Id LoopBuilder::index(Id dim, DType type) {
  fb::InstrT instr;
  instr.kind = fb::InstrKind::Index;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.dim = dim;
  return add(std::move(instr));
}

Id LoopBuilder::store(Id access, Id value, DType type) {
  fb::InstrT instr;
  instr.kind = fb::InstrKind::Store;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.args = {value};
  instr.access = access;
  return add(std::move(instr));
}

Id LoopBuilder::scatter(Id access, Id value, std::uint8_t op, DType type) {
  fb::InstrT instr;
  instr.kind = fb::InstrKind::Scatter;
  instr.op = op;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.args = {value};
  instr.access = access;
  return add(std::move(instr));
}

Id LoopBuilder::scan(Combine combine, Id value, bool exclusive, DType type) {
  fb::InstrT instr;
  instr.kind = fb::InstrKind::Scan;
  instr.op = static_cast<std::uint8_t>(combine);
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.args = {value};
  instr.exclusive = exclusive;
  return add(std::move(instr));
}

PlanBuilder::PlanBuilder() {
  meta.compiler_version = "test";
  meta.target = "cpu";
}

Id PlanBuilder::expr(fb::ExprOp op, Id a, Id b) {
  meta.expressions.emplace_back(op, a, b, 0);
  return static_cast<Id>(meta.expressions.size() - 1);
}

Id PlanBuilder::constant(std::int64_t value) {
  const auto [it, inserted] = constants_.try_emplace(value, 0);
  if (inserted) {
    meta.expressions.emplace_back(fb::ExprOp::Constant, 0, 0, value);
    it->second = static_cast<Id>(meta.expressions.size() - 1);
  }
  return it->second;
}

Id PlanBuilder::symbol(const std::string& name, std::int64_t min, std::int64_t max) {
  auto symbol = std::make_unique<fb::SymbolT>();
  symbol->name = name;
  symbol->min = min;
  symbol->max = max;
  meta.symbols.push_back(std::move(symbol));
  return expr(fb::ExprOp::Symbol, static_cast<Id>(meta.symbols.size() - 1), 0);
}

Id PlanBuilder::product(const std::vector<Id>& dims) {
  Id result = constant(1);
  for (const Id dim : dims) result = mul(result, dim);
  return result;
}

Id PlanBuilder::buffer(fb::BufferKind kind, DType type, Id bytes) {
  auto buffer = std::make_unique<fb::BufferT>();
  buffer->kind = kind;
  buffer->dtype = static_cast<std::uint8_t>(type);
  buffer->bytes = bytes;
  meta.buffers.push_back(std::move(buffer));
  return static_cast<Id>(meta.buffers.size() - 1);
}

Id PlanBuilder::input(const std::string& name, DType type, std::vector<Id> shape) {
  const auto size = constant(static_cast<std::int64_t>(size_of(type)));
  const Id id = buffer(fb::BufferKind::Input, type, mul(product(shape), size));
  meta.buffers[id]->binding = static_cast<Id>(meta.inputs.size());
  auto binding = std::make_unique<fb::BindingT>();
  binding->name = name;
  binding->dtype = static_cast<std::uint8_t>(type);
  binding->shape = std::move(shape);
  binding->buffer = id;
  meta.inputs.push_back(std::move(binding));
  return id;
}

Id PlanBuilder::output(const std::string& name, DType type, std::vector<Id> shape) {
  const auto size = constant(static_cast<std::int64_t>(size_of(type)));
  const Id id = buffer(fb::BufferKind::Output, type, mul(product(shape), size));
  meta.buffers[id]->binding = static_cast<Id>(meta.outputs.size());
  auto binding = std::make_unique<fb::BindingT>();
  binding->name = name;
  binding->dtype = static_cast<std::uint8_t>(type);
  binding->shape = std::move(shape);
  binding->buffer = id;
  meta.outputs.push_back(std::move(binding));
  return id;
}

Id PlanBuilder::state(const std::string& name, DType type, std::vector<Id> shape) {
  const Id id = input(name, type, shape);
  meta.buffers[id]->kind = fb::BufferKind::State;
  meta.buffers[id]->binding = static_cast<Id>(meta.states.size());
  auto binding = std::make_unique<fb::BindingT>(*meta.inputs.back());
  binding->name += "_next";
  meta.outputs.push_back(std::move(binding));
  auto state = std::make_unique<fb::StateT>();
  state->input = static_cast<Id>(meta.inputs.size() - 1);
  state->output = static_cast<Id>(meta.outputs.size() - 1);
  meta.states.push_back(std::move(state));
  return id;
}

Id PlanBuilder::arena(DType type, std::vector<Id> shape) {
  const auto size = constant(static_cast<std::int64_t>(size_of(type)));
  return buffer(fb::BufferKind::Arena, type, mul(product(shape), size));
}

Id PlanBuilder::weight_bytes(DType type, const void* data, std::size_t bytes) {
  std::uint64_t offset = 0;
  for (const auto& other : weights_)
    offset += (other.size() + plan::kWeightAlignment - 1) / plan::kWeightAlignment *
              plan::kWeightAlignment;
  weights_.emplace_back(bytes);
  if (bytes > 0) std::memcpy(weights_.back().data(), data, bytes);
  const Id id = buffer(fb::BufferKind::Weight, type, constant(static_cast<std::int64_t>(bytes)));
  meta.buffers[id]->weight_offset = offset;
  return id;
}

void PlanBuilder::step(const std::string& name, std::vector<Id> reads, std::vector<Id> writes,
                       fb::WorkUnion work) {
  const auto unique = [](std::vector<Id> ids) {
    const std::set<Id> set(ids.begin(), ids.end());
    return std::vector<Id>(set.begin(), set.end());
  };
  auto step = std::make_unique<fb::StepT>();
  step->name = name;
  step->origins = {"origin of " + name};
  step->bytes_read = step->bytes_written = step->flops = constant(8);
  step->reads = unique(std::move(reads));
  step->writes = unique(std::move(writes));
  step->work = std::move(work);
  meta.steps.push_back(std::move(step));
}

void PlanBuilder::loop(const std::string& name, LoopBuilder builder) {
  std::vector<Id> reads, writes;
  fb::LoopProgramT& program = builder.program;
  for (const auto& instr : program.instrs) {
    if (instr->kind == fb::InstrKind::Load)
      reads.push_back(program.buffers[program.accesses[instr->access]->buffer]);
    if (instr->kind == fb::InstrKind::Store || instr->kind == fb::InstrKind::Scatter)
      writes.push_back(program.buffers[program.accesses[instr->access]->buffer]);
  }
  fb::LoopStepT loop;
  loop.program = std::make_unique<fb::LoopProgramT>(std::move(program));
  fb::WorkUnion work;
  work.Set(std::move(loop));
  step(name, std::move(reads), std::move(writes), std::move(work));
}

void PlanBuilder::matmul(const std::string& name, fb::MatmulStepT matmul) {
  std::vector<Id> reads = {matmul.a->buffer, matmul.b->buffer};
  if (matmul.residual) reads.push_back(matmul.residual->buffer);
  if (matmul.bias >= 0) reads.push_back(static_cast<Id>(matmul.bias));
  if (matmul.quantization) {
    reads.push_back(matmul.quantization->scales);
    for (const std::int32_t more : {matmul.quantization->zero_points, matmul.quantization->factors,
                                    matmul.quantization->offsets})
      if (more >= 0) reads.push_back(static_cast<Id>(more));
  }
  const Id target = matmul.d->buffer;
  fb::WorkUnion work;
  work.Set(std::move(matmul));
  step(name, std::move(reads), {target}, std::move(work));
}

void PlanBuilder::conv(const std::string& name, fb::ConvStepT conv) {
  std::vector<Id> reads = {conv.input, conv.weight};
  if (conv.bias >= 0) reads.push_back(static_cast<Id>(conv.bias));
  if (conv.residual >= 0) reads.push_back(static_cast<Id>(conv.residual));
  const Id target = conv.output;
  fb::WorkUnion work;
  work.Set(std::move(conv));
  step(name, std::move(reads), {target}, std::move(work));
}

void PlanBuilder::call(const std::string& name, std::initializer_list<Tensor> inputs,
                       std::initializer_list<Tensor> outputs,
                       std::initializer_list<Attribute> attributes) {
  fb::OperatorStepT call;
  call.operator_name = name;
  std::vector<Id> reads, writes;
  const auto add = [](const Tensor& tensor, auto& tensors, std::vector<Id>& buffers) {
    auto made = std::make_unique<fb::HostTensorT>();
    made->buffer = tensor.buffer;
    made->shape = tensor.shape;
    tensors.push_back(std::move(made));
    buffers.push_back(tensor.buffer);
  };
  for (const Tensor& input : inputs) add(input, call.inputs, reads);
  for (const Tensor& output : outputs) add(output, call.outputs, writes);
  for (const auto& [of, value] : attributes) {
    auto& attribute = call.attributes.emplace_back(std::make_unique<fb::HostAttributeT>());
    attribute->name = of;
    attribute->is_float = std::holds_alternative<double>(value);
    if (attribute->is_float)
      attribute->real = std::get<double>(value);
    else
      attribute->integer = std::get<std::int64_t>(value);
  }
  fb::WorkUnion work;
  work.Set(std::move(call));
  step(name, std::move(reads), std::move(writes), std::move(work));
}

void PlanBuilder::host(const std::string& name, fb::HostStepT host) {
  auto code = std::make_unique<fb::CustomCodeT>();
  code->name = host.operator_name;
  code->kind = fb::CodeKind::Host;
  meta.custom_code.push_back(std::move(code));
  std::vector<Id> reads, writes;
  for (const auto& input : host.inputs) reads.push_back(input->buffer);
  for (const auto& output : host.outputs) writes.push_back(output->buffer);
  fb::WorkUnion work;
  work.Set(std::move(host));
  step(name, reads, writes, std::move(work));
}

void PlanBuilder::attention(const std::string& name, fb::AttentionStepT attention) {
  std::vector<Id> reads = {attention.q->buffer, attention.k->buffer, attention.v->buffer};
  if (attention.mask) reads.push_back(attention.mask->buffer);
  if (attention.limits) reads.push_back(attention.limits->buffer);
  if (attention.bounds) reads.push_back(attention.bounds->buffer);
  const Id target = attention.y->buffer;
  fb::WorkUnion work;
  work.Set(std::move(attention));
  step(name, std::move(reads), {target}, std::move(work));
}

void PlanBuilder::copy(const std::string& name, Id source, Id target, Id bytes) {
  fb::CopyStepT copy;
  copy.source = source;
  copy.target = target;
  copy.bytes = bytes;
  fb::WorkUnion work;
  work.Set(std::move(copy));
  step(name, {source}, {target}, std::move(work));
}

std::unique_ptr<fb::MatrixT> PlanBuilder::matrix(Id buffer, Id row_stride, Id col_stride,
                                                 std::vector<Id> batch_strides, Id offset) {
  auto matrix = std::make_unique<fb::MatrixT>();
  matrix->buffer = buffer;
  matrix->dtype = meta.buffers[buffer]->dtype;
  matrix->offset = offset == UINT32_MAX ? constant(0) : offset;
  matrix->row_stride = row_stride;
  matrix->col_stride = col_stride;
  matrix->batch_strides = std::move(batch_strides);
  return matrix;
}

plan::PlanParts PlanBuilder::parts() {
  for (std::size_t i = 0; i < meta.buffers.size(); ++i) {
    if (meta.buffers[i]->kind != fb::BufferKind::Arena) continue;
    bool first = true;
    for (std::size_t s = 0; s < meta.steps.size(); ++s) {
      const fb::StepT& step = *meta.steps[s];
      const auto has = [&](const std::vector<Id>& ids) {
        return std::find(ids.begin(), ids.end(), i) != ids.end();
      };
      if (!has(step.reads) && !has(step.writes)) continue;
      if (std::exchange(first, false)) meta.buffers[i]->first_step = static_cast<Id>(s);
      meta.buffers[i]->last_step = static_cast<Id>(s);
    }
  }
  // What a loop or branches use is there until their last body has ended.
  for (std::size_t s = 0; s < meta.steps.size(); ++s) {
    const fb::WhileStepT* loop = meta.steps[s]->work.AsWhileStep();
    const fb::IfStepT* branch = meta.steps[s]->work.AsIfStep();
    const Id end = static_cast<Id>(s) + (loop     ? loop->steps
                                         : branch ? branch->then_steps + branch->else_steps
                                                  : 0);
    for (const auto* list : {&meta.steps[s]->reads, &meta.steps[s]->writes})
      for (const Id id : *list)
        meta.buffers[id]->last_step = std::max(meta.buffers[id]->last_step, end);
  }
  plan::PlanParts parts;
  parts.meta = meta;
  std::uint64_t offset = 0;
  for (const auto& bytes : weights_) {
    parts.weights.push_back({offset, bytes, nullptr});
    offset += (bytes.size() + plan::kWeightAlignment - 1) / plan::kWeightAlignment *
              plan::kWeightAlignment;
  }
  return parts;
}

}  // namespace sinter::testing
