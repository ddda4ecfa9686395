// Metadata that is well-formed as bytes and wrong in meaning.
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_builder.h"
#include "runtime/plan/file_header.h"
#include "runtime/plan/hash.h"
#include "runtime/plan/verify/verify_plan.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

/// Step 0 is a product, step 1 a loop program, step 2 a convolution, step 3 a copy.
PlanBuilder steps_of_all_kinds() {
  PlanBuilder b;
  const Id batch = b.symbol("batch", 1, 64);
  const Id four = b.constant(4), one = b.constant(1), zero = b.constant(0), two = b.constant(2);
  const Id x = b.input("x", DType::kFloat32, {batch, four});
  const Id index = b.input("index", DType::kInt64, {batch});
  const Id y = b.output("y", DType::kFloat32, {batch, four});
  const Id z = b.output("z", DType::kFloat32, {batch, one, two});
  const Id u = b.output("u", DType::kFloat32, {batch, one, two});
  const Id w = b.weight(DType::kFloat32, std::vector<float>(16, 0.5f));
  const Id kernel = b.weight(DType::kFloat32, std::vector<float>(3, 1.0f));
  const Id t = b.arena(DType::kFloat32, {batch, four});
  fb::MatmulStepT matmul;
  matmul.m = batch;
  matmul.n = matmul.k = four;
  matmul.a = b.matrix(x, four, one);
  matmul.b = b.matrix(w, four, one);
  matmul.d = b.matrix(t, four, one);
  b.matmul("product", std::move(matmul));

  LoopBuilder loop({batch, four}, 1);
  const Id value = loop.load(loop.access(t, zero, {four, one}));
  const Id row = loop.load(loop.access(index, zero, {one, zero}), DType::kInt64);
  const Id table = loop.access(w, zero, {zero, one});
  loop.access_at(table).gathers.emplace_back(row, four, four);
  const Id guarded = loop.access(x, zero, {four, one});
  loop.access_at(guarded).guards.emplace_back(loop.index_node(fb::ExprOp::Symbol, 1), two);
  const Id sum = loop.op(ScalarOp::kAdd, {loop.load(table), loop.load(guarded)});
  const Id total = loop.reduce(Combine::kSum, loop.op(ScalarOp::kMul, {value, sum}));
  loop.store(loop.access(y, zero, {four, one}), loop.op(ScalarOp::kSub, {value, total}));
  b.loop("loop", std::move(loop));

  fb::ConvStepT conv;
  conv.input = x;
  conv.weight = kernel;
  conv.output = z;
  conv.input_shape = {batch, one, four};
  conv.weight_shape = {one, one, b.constant(3)};
  conv.output_shape = {batch, one, two};
  conv.strides = conv.dilations = {1};
  conv.pads_begin = conv.pads_end = {0};
  b.conv("conv", std::move(conv));

  const Id places = b.output("places", DType::kInt64, {batch, two});
  fb::SortStepT sort;
  sort.input = x;
  sort.output = places;
  sort.outer = batch;
  sort.length = four;
  sort.inner = one;
  sort.count = two;
  b.sort("sort", std::move(sort));
  b.copy("copy", z, u, b.mul(batch, b.constant(8)));
  const Id kept = b.state("kept", DType::kFloat32, {batch});
  LoopBuilder change({batch}, 0);
  const Id before = change.load(change.access(kept, zero, {one}));
  change.store(change.access(kept, zero, {one}), change.op(ScalarOp::kNeg, {before}));
  b.loop("change", std::move(change));
  return b;
}

std::string refusal_of(const Bytes& bytes) {
  try {
    plan::parse_plan(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    return error.what();
  }
  return "accepted";
}

struct DamageCase {
  const char* name;
  std::function<void(fb::PlanT&)> damage;
  const char* expected;
};

fb::LoopProgramT& loop_of(fb::PlanT& p) { return *p.steps[1]->work.AsLoopStep()->program; }
fb::MatmulStepT& matmul_of(fb::PlanT& p) { return *p.steps[0]->work.AsMatmulStep(); }
fb::SortStepT& sort_of(fb::PlanT& p) { return *p.steps[3]->work.AsSortStep(); }
fb::ConvStepT& conv_of(fb::PlanT& p) { return *p.steps[2]->work.AsConvStep(); }

void add_entry(fb::PlanT& p, const char* name, Id first, Id count) {
  auto entry = std::make_unique<fb::EntryT>();
  entry->name = name;
  entry->limits.emplace_back(0, 1, 8);
  entry->first_step = first;
  entry->step_count = count;
  p.entries.push_back(std::move(entry));
}

/// Two entry points, of which the first has the first so many steps.
void split_in_two(fb::PlanT& p, Id first_count) {
  add_entry(p, "first", 0, first_count);
  add_entry(p, "second", first_count, static_cast<Id>(p.steps.size()) - first_count);
}

/// The sample as the only entry point, which takes what check_survives gives it.
Bytes sample_as_entry() {
  PlanBuilder builder = steps_of_all_kinds();
  plan::PlanParts parts = builder.parts();
  add_entry(parts.meta, "few", 0, static_cast<Id>(parts.meta.steps.size()));
  return plan::serialize_plan(parts);
}

const DamageCase kCases[] = {
    {"entry_outputs", [](auto& p) { split_in_two(p, 5); }, "no step writes the output 'y'"},
    {"entry_without_steps", [](auto& p) { split_in_two(p, 6); }, "no step writes the output 'y'"},
    {"entry_name",
     [](auto& p) {
       split_in_two(p, 5);
       p.entries[1]->name = "first";
     },
     "entry point 'first': its name is empty or occurs twice"},
    {"entry_symbol",
     [](auto& p) {
       split_in_two(p, 5);
       p.entries[1]->limits[0] = fb::Limit(1, 0, 1);
     },
     "a limit's symbol is 1"},
    {"entry_limits",
     [](auto& p) {
       split_in_two(p, 5);
       p.entries[0]->limits[0] = fb::Limit(0, 3, 2);
     },
     "it has the limits [3, 2]"},
    {"entry_gap",
     [](auto& p) {
       split_in_two(p, 4);
       p.entries[1]->first_step = 5;
     },
     "do not follow the 4 before them"},
    {"entry_too_long",
     [](auto& p) {
       split_in_two(p, 4);
       p.entries[1]->step_count = UINT32_MAX;
     },
     "do not follow the 4 before them"},
    {"entry_too_short",
     [](auto& p) {
       split_in_two(p, 4);
       p.entries[1]->step_count = 1;
     },
     "its entry points have 5 of its 6 steps"},
    {"target", [](auto& p) { p.target = "tpu"; }, "target is 'tpu'"},
    {"symbol_range", [](auto& p) { p.symbols[0]->min = 100; }, "has the range [100, 64]"},
    {"symbol_name", [](auto& p) { p.symbols[0]->name = ""; }, "empty or occurs twice"},
    {"symbol_unbound",
     [](auto& p) {
       p.symbols.push_back(std::make_unique<fb::SymbolT>());
       p.symbols[1]->name = "free";
     },
     "symbol 'free' is in no input's dimension"},
    {"symbol_of_no_input",
     [](auto& p) {
       p.symbols.push_back(std::make_unique<fb::SymbolT>());
       p.symbols[1]->name = "flag";
       p.symbols[1]->value_of = 99;
     },
     "its value is 99"},
    {"symbol_of_a_matrix",
     [](auto& p) {
       p.symbols.push_back(std::make_unique<fb::SymbolT>());
       p.symbols[1]->name = "flag";
       p.symbols[1]->value_of = 0;
     },
     "symbol 'flag' is the value of input"},
    {"expression_operand",
     [](auto& p) { p.expressions.emplace_back(fb::ExprOp::Add, 99999, 0, 0); },
     "its first operand is 99999"},
    {"expression_later",
     [](auto& p) {
       p.expressions.emplace_back(fb::ExprOp::Add, 0, static_cast<Id>(p.expressions.size()), 0);
     },
     "expressions before it"},
    {"expression_op",
     [](auto& p) { p.expressions.emplace_back(static_cast<fb::ExprOp>(9), 0, 0, 0); },
     "its operator is 9"},
    {"expression_symbol", [](auto& p) { p.expressions.emplace_back(fb::ExprOp::Symbol, 3, 0, 0); },
     "its symbol is 3"},
    {"buffer_kind", [](auto& p) { p.buffers[0]->kind = static_cast<fb::BufferKind>(9); },
     "its kind is 9"},
    {"buffer_dtype", [](auto& p) { p.buffers[0]->dtype = 17; }, "element type 17"},
    {"buffer_bytes", [](auto& p) { p.buffers[0]->bytes = 99999; }, "its size is 99999"},
    {"buffer_binding", [](auto& p) { p.buffers[0]->binding = 1; }, "input 1 belongs to buffer 1"},
    {"weight_offset", [](auto& p) { p.buffers[5]->weight_offset = 1 << 20; },
     "misaligned or outside"},
    {"weight_alignment", [](auto& p) { p.buffers[5]->weight_offset = 8; }, "misaligned or outside"},
    {"weight_size", [](auto& p) { p.buffers[5]->bytes = p.buffers[0]->bytes; },
     "must be a constant"},
    {"arena_step", [](auto& p) { p.buffers[7]->last_step = 6; }, "its last step is 6"},
    {"arena_order", [](auto& p) { p.buffers[7]->first_step = 2; }, "lives from step 2 to step 1"},
    {"arena_dead", [](auto& p) { p.buffers[7]->last_step = 0; },
     "which lives from step 0 to step 0"},
    {"binding_buffer", [](auto& p) { p.inputs[0]->buffer = 2; }, "belongs to buffer 2"},
    {"binding_name", [](auto& p) { p.inputs[1]->name = "x"; }, "the name occurs twice"},
    {"binding_dtype", [](auto& p) { p.inputs[0]->dtype = 9; },
     "is not the input's buffer of type f16"},
    {"binding_shape", [](auto& p) { p.inputs[0]->shape[0] = 99999; }, "a dimension is 99999"},
    {"state_input", [](auto& p) { p.states[0]->input = 5; }, "a state's input is 5"},
    {"state_output", [](auto& p) { p.states[0]->output = 9; }, "a state's output is 9"},
    {"state_of_other_input", [](auto& p) { p.states[0]->input = 0; }, "belongs to buffer 0"},
    {"state_binding", [](auto& p) { p.buffers[p.inputs.back()->buffer]->binding = 3; },
     "its state is 3"},
    {"state_without_buffer", [](auto& p) { p.states.push_back(std::make_unique<fb::StateT>()); },
     "are no state: they lie in buffers 2 and 0"},
    {"state_kind",
     [](auto& p) { p.buffers[p.inputs.back()->buffer]->kind = fb::BufferKind::Arena; },
     "is not the input's buffer"},
    {"state_shape", [](auto& p) { p.outputs.back()->shape = p.outputs[0]->shape; },
     "changes its shape"},
    {"state_of_input",
     [](auto& p) {
       p.inputs[0]->buffer = p.inputs.back()->buffer;
       p.buffers[0]->kind = fb::BufferKind::Arena;
     },
     "is not the input's buffer"},
    {"module",
     [](auto& p) {
       p.modules.push_back(std::make_unique<fb::ModuleT>());
       p.modules[0]->size = 10;
     },
     "outside the 0 bytes of modules"},
    {"no_work", [](auto& p) { p.steps[0]->work.Reset(); }, "unknown kind 0"},
    {"kernel_on_cpu", [](auto& p) { p.steps[0]->work.Set(fb::KernelStepT{}); },
     "a kernel cannot run on target 'cpu'"},
    {"step_expression", [](auto& p) { p.steps[0]->flops = 99999; }, "its number of operations"},
    {"step_arithmetic", [](auto& p) { p.steps[0]->arithmetic = fb::Arithmetic(77); },
     "its arithmetic"},
    {"undeclared_read", [](auto& p) { p.steps[1]->reads = {7}; }, "undeclared"},
    {"undeclared_write", [](auto& p) { p.steps[1]->writes.clear(); }, "writes buffer 2 undeclared"},
    {"reads_buffer", [](auto& p) { p.steps[1]->reads.push_back(99); }, "a buffer it uses is 99"},
    {"reads_unwritten", [](auto& p) { p.steps[0]->reads.push_back(2); },
     "reads buffer 2, which no step before it has written"},
    {"writes_input", [](auto& p) { p.steps[0]->writes.push_back(0); }, "which is an Input"},
    {"output_unwritten", [](auto& p) { p.steps.erase(p.steps.begin() + 4); },
     "no step writes the output 'u'"},
    {"matmul_buffer", [](auto& p) { matmul_of(p).a->buffer = 99; }, "operand a is 99"},
    {"matmul_stride", [](auto& p) { matmul_of(p).a->col_stride = matmul_of(p).a->row_stride; },
     "neither rows nor columns of operand a"},
    {"matmul_batch", [](auto& p) { matmul_of(p).batch = {0}; }, "0 batch strides for 1"},
    {"matmul_bias", [](auto& p) { matmul_of(p).bias = -5; }, "its bias is buffer -5"},
    {"matmul_activation", [](auto& p) { matmul_of(p).activation = fb::Activation::Sigmoid; },
     "its activation is 4"},
    {"matmul_type", [](auto& p) { matmul_of(p).a->dtype = 9; }, "in a buffer of type f32"},
    {"conv_rank", [](auto& p) { conv_of(p).output_shape.pop_back(); }, "must have the same number"},
    {"conv_strides", [](auto& p) { conv_of(p).strides.clear(); }, "0 strides"},
    {"conv_stride", [](auto& p) { conv_of(p).strides[0] = 0; }, "not a possible stride"},
    {"conv_group", [](auto& p) { conv_of(p).group = 0; }, "it has 0 groups"},
    {"conv_bias", [](auto& p) { conv_of(p).bias = -2; }, "its bias is buffer -2"},
    {"conv_residual", [](auto& p) { conv_of(p).residual = -2; }, "its residual is buffer -2"},
    {"conv_residual_type", [](auto& p) { conv_of(p).residual = 1; },
     "the residual is not of the input's type"},
    {"conv_residual_undeclared", [](auto& p) { conv_of(p).residual = 5; },
     "reads buffer 5 undeclared"},
    {"conv_activation", [](auto& p) { conv_of(p).activation = static_cast<fb::Activation>(11); },
     "its activation is 11"},
    {"conv_math", [](auto& p) { conv_of(p).math = static_cast<fb::MathMode>(3); },
     "its math mode is 3"},
    {"conv_type", [](auto& p) { conv_of(p).input = 1; }, "all must be one float type"},
    {"copy_self", [](auto& p) { p.steps[4]->work.AsCopyStep()->target = 3; }, "to itself"},
    {"loop_inner", [](auto& p) { loop_of(p).inner_dims = 3; }, "3 of its 2 dimensions"},
    {"loop_extent", [](auto& p) { loop_of(p).extents[0] = 99999; }, "an extent is 99999"},
    {"loop_buffer", [](auto& p) { loop_of(p).buffers[0] = 99; }, "a buffer is 99"},
    {"loop_access_buffer", [](auto& p) { loop_of(p).accesses[0]->buffer = 9; },
     "an access's buffer"},
    {"loop_strides", [](auto& p) { loop_of(p).accesses[0]->strides.pop_back(); },
     "1 strides for 2 dimensions"},
    {"loop_operand", [](auto& p) { loop_of(p).instrs[6]->args[0] = 50; }, "instructions before it"},
    {"loop_arity", [](auto& p) { loop_of(p).instrs[5]->args.pop_back(); },
     "1 operands instead of 2"},
    {"loop_op", [](auto& p) { loop_of(p).instrs[4]->op = 200; }, "operator 200 does not exist"},
    {"loop_reduce", [](auto& p) { loop_of(p).instrs[6]->op = 9; }, "reduction 9 does not exist"},
    {"loop_kind", [](auto& p) { loop_of(p).instrs[0]->kind = static_cast<fb::InstrKind>(9); },
     "an instruction's kind is 9"},
    {"loop_precision",
     [](auto& p) { loop_of(p).instrs[4]->precision = static_cast<fb::Precision>(3); },
     "an instruction's precision is 3"},
    {"loop_storage_type", [](auto& p) { loop_of(p).instrs[0]->dtype = 9; }, "is a storage type"},
    {"loop_load_type", [](auto& p) { loop_of(p).instrs[0]->dtype = 12; }, "moves f64 values"},
    {"loop_op_type", [](auto& p) { loop_of(p).instrs[4]->dtype = 0; }, "yields f32, not bool"},
    {"loop_access", [](auto& p) { loop_of(p).instrs[0]->access = 77; }, "an access is 77"},
    {"loop_gather", [](auto& p) { loop_of(p).accesses[2]->gathers[0] = fb::Gather(0, 0, 0); },
     "not an integer"},
    {"loop_gather_later", [](auto& p) { loop_of(p).accesses[2]->gathers[0] = fb::Gather(7, 0, 0); },
     "a gathered index is 7"},
    {"loop_guard", [](auto& p) { loop_of(p).accesses[3]->guards[0] = fb::Guard(5, 0); },
     "a guard's index is 5"},
    {"loop_index_node",
     [](auto& p) { loop_of(p).index_nodes[0] = fb::IndexNode(fb::ExprOp::Symbol, 2, 0); },
     "an index node's dimension is 2"},
    {"loop_index_operands",
     [](auto& p) {
       fb::InstrT& index = *loop_of(p).instrs[1];
       index.kind = fb::InstrKind::Index;
       index.args = {0};
     },
     "instruction 1 has operands"},
    {"loop_scatter_op",
     [](auto& p) {
       fb::InstrT& store = *loop_of(p).instrs.back();
       store.kind = fb::InstrKind::Scatter;
       store.op = 9;
     },
     "combines by 9"},
    {"loop_scatter_and_reduce",
     [](auto& p) {
       fb::InstrT& store = *loop_of(p).instrs.back();
       store.kind = fb::InstrKind::Scatter;
       store.op = 255;
     },
     "both scatters and reduces"},
    {"loop_scan_op",
     [](auto& p) {
       fb::InstrT& sum = *loop_of(p).instrs[6];
       sum.kind = fb::InstrKind::Scan;
       sum.op = 4;
     },
     "reduction 4 does not exist"},
    {"loop_scan_and_scatter",
     [](auto& p) {
       loop_of(p).instrs[6]->kind = fb::InstrKind::Scan;
       fb::InstrT& store = *loop_of(p).instrs.back();
       store.kind = fb::InstrKind::Scatter;
       store.op = 255;
     },
     "it scans, and scatters or reduces too"},
    {"loop_scan_without_rows",
     [](auto& p) {
       fb::InstrT& sum = *loop_of(p).instrs[6];
       sum.kind = fb::InstrKind::Scan;
       loop_of(p).inner_dims = 0;
     },
     "it scans, but has no rows"},
    {"sort_input", [](auto& p) { sort_of(p).input = 99; }, "its input is 99"},
    {"sort_size", [](auto& p) { sort_of(p).count = 999; }, "a size is 999"},
    {"sort_types", [](auto& p) { sort_of(p).output = sort_of(p).input; }, "is not of type i64"},
    {"sort_undeclared", [](auto& p) { p.steps[3]->reads.clear(); }, "undeclared"},
    {"loop_row_store", [](auto& p) { loop_of(p).accesses[4]->strides[1] = 3; },
     "stores a value per element at an address per row"},
};

class PlanVerify : public ::testing::TestWithParam<DamageCase> {};

TEST_P(PlanVerify, IsRefused) {
  PlanBuilder builder = steps_of_all_kinds();
  plan::PlanParts parts = builder.parts();
  GetParam().damage(parts.meta);
  EXPECT_THAT(refusal_of(plan::serialize_plan(parts)), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(Damage, PlanVerify, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(PlanVerifySample, IsAccepted) {
  PlanBuilder builder = steps_of_all_kinds();
  EXPECT_EQ(refusal_of(builder.bytes()), "accepted");
  EXPECT_EQ(refusal_of(sample_as_entry()), "accepted");
}

std::string bound_message(const fb::PlanT& meta, std::int64_t batch) {
  try {
    const std::vector<std::int64_t> symbols = {batch};
    plan::verify_bound(meta, plan::evaluate_expressions(meta, symbols));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    return error.what();
  }
  return "accepted";
}

PlanBuilder sampling_plan() {
  PlanBuilder b;
  const Id rows = b.symbol("batch", 1, 64), count = b.constant(40);
  fb::SamplingStepT sampling;
  sampling.rows = rows;
  sampling.vocabulary = count;
  sampling.sets_rows = b.constant(3);
  sampling.biases_count = b.constant(5);
  sampling.logits = b.input("logits", DType::kFloat16, {rows, count});
  sampling.reals = b.input("reals", DType::kFloat64, {rows, b.constant(4)});
  sampling.integers = b.input("integers", DType::kInt64, {rows, b.constant(6)});
  sampling.sets = b.input("sets", DType::kInt32, {sampling.sets_rows, b.constant(2)});
  sampling.biased = b.input("biased", DType::kInt32, {sampling.biases_count});
  sampling.biases = b.input("biases", DType::kFloat32, {sampling.biases_count});
  sampling.tokens = b.output("tokens", DType::kInt32, {rows});
  b.sampling("sample", std::move(sampling));
  return b;
}

TEST(PlanVerifySampling, DamageIsRefused) {
  const auto damaged = [](const auto& damage) {
    PlanBuilder builder = sampling_plan();
    plan::PlanParts parts = builder.parts();
    damage(*parts.meta.steps[0], *parts.meta.steps[0]->work.AsSamplingStep());
    const std::string refusal = refusal_of(plan::serialize_plan(parts));
    return refusal == "accepted" ? bound_message(parts.meta, 3) : refusal;
  };
  EXPECT_EQ(damaged([](auto&, auto&) {}), "accepted");
  EXPECT_THAT(damaged([](auto&, auto& work) { std::swap(work.reals, work.integers); }),
              HasSubstr("its real parameters are not of type f64"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.logits = work.sets; }),
              HasSubstr("its logits are of type i32"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.tokens = work.logits; }),
              HasSubstr("its results are not of type i32"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.tokens = work.biased; }),
              HasSubstr("its results lie where its inputs do"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.biases = 99; }), HasSubstr("its biases"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.rows = 99; }), HasSubstr("a size"));
  EXPECT_THAT(damaged([](auto& step, auto&) { step.reads.clear(); }), HasSubstr("undeclared"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.rows = work.vocabulary; }),
              HasSubstr("its logits reach"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.sets_rows = work.biases_count; }),
              HasSubstr("its sets of tokens reach"));
  EXPECT_THAT(damaged([](auto&, auto& work) { work.biases_count = work.vocabulary; }),
              HasSubstr("its tokens with a bias reach"));
}

const DamageCase kBoundCases[] = {
    {"sort_length", [](auto& p) { sort_of(p).length = sort_of(p).outer; }, "its input reaches"},
    {"sort_count", [](auto& p) { sort_of(p).count = sort_of(p).outer; }, "in rows of 4 elements"},
    {"sort_output", [](auto& p) { sort_of(p).count = sort_of(p).length; }, "its output reaches"},
    {"loop_offset", [](auto& p) { loop_of(p).accesses[0]->offset = loop_of(p).extents[1]; },
     "reaches element"},
    {"loop_stride", [](auto& p) { loop_of(p).accesses[0]->strides[1] = loop_of(p).extents[1]; },
     "reaches element"},
    {"loop_gather_extent",
     [](auto& p) {
       loop_of(p).accesses[2]->gathers[0] =
           fb::Gather(1, static_cast<Id>(p.buffers[6]->bytes), loop_of(p).extents[1]);
     },
     "an access reaches element"},
    {"matmul_k", [](auto& p) { matmul_of(p).k = matmul_of(p).m; }, "operand a reaches element"},
    {"matmul_d", [](auto& p) { matmul_of(p).d->offset = matmul_of(p).n; }, "result d reaches"},
    {"conv_output", [](auto& p) { conv_of(p).pads_end = {1}; }, "does not follow from"},
    {"conv_channels", [](auto& p) { conv_of(p).group = 2; }, "do not belong together"},
    {"conv_layout", [](auto& p) { conv_of(p).channels_last = true; }, "do not belong together"},
    {"conv_residual",
     [](auto& p) {
       conv_of(p).residual = 6;
       p.steps[2]->reads.push_back(6);
     },
     "the residual reaches element 17"},
    {"copy", [](auto& p) { p.steps[4]->work.AsCopyStep()->bytes = p.buffers[0]->bytes; },
     "it copies 144 bytes, but buffer 3 has 72"},
    {"binding", [](auto& p) { p.buffers[0]->bytes = p.buffers[3]->bytes; }, "its shape takes 144"},
};

class PlanVerifyBound : public ::testing::TestWithParam<DamageCase> {};

TEST_P(PlanVerifyBound, IsRefused) {
  PlanBuilder builder = steps_of_all_kinds();
  plan::PlanParts parts = builder.parts();
  EXPECT_EQ(bound_message(parts.meta, 9), "accepted");
  GetParam().damage(parts.meta);
  ASSERT_EQ(refusal_of(plan::serialize_plan(parts)), "accepted");
  EXPECT_THAT(bound_message(parts.meta, 9), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(Damage, PlanVerifyBound, ::testing::ValuesIn(kBoundCases),
                         [](const auto& info) { return info.param.name; });

TEST(PlanVerifyBound, ChannelsMayBeLast) {
  PlanBuilder builder = steps_of_all_kinds();
  plan::PlanParts parts = builder.parts();
  fb::ConvStepT& conv = conv_of(parts.meta);
  conv.channels_last = true;
  for (auto* shape : {&conv.input_shape, &conv.weight_shape, &conv.output_shape})
    std::swap((*shape)[1], (*shape)[2]);
  ASSERT_EQ(refusal_of(plan::serialize_plan(parts)), "accepted");
  EXPECT_EQ(bound_message(parts.meta, 9), "accepted");
  conv.pads_end = {1};
  EXPECT_THAT(bound_message(parts.meta, 9), HasSubstr("does not follow from"));
}

TEST(PlanExpressions, OverflowAndDivisionByZeroAreErrors) {
  PlanBuilder b;
  const Id n = b.symbol("n", 0, INT64_MAX);
  b.expr(fb::ExprOp::Mul, n, n);
  b.expr(fb::ExprOp::FloorDiv, n, b.expr(fb::ExprOp::Sub, n, b.constant(3)));
  const auto evaluate = [&](std::int64_t value) -> std::string {
    try {
      plan::evaluate_expressions(b.meta, std::vector{value});
    } catch (const Error& error) {
      return error.what();
    }
    return "fine";
  };
  EXPECT_EQ(evaluate(5), "fine");
  EXPECT_THAT(evaluate(INT64_MAX), HasSubstr("overflows 64 bits for n=9223372036854775807"));
  EXPECT_THAT(evaluate(3), HasSubstr("divides by zero for n=3"));
}

TEST(PlanExpressions, FloorDivisionRoundsDown) {
  PlanBuilder b;
  const Id q = b.expr(fb::ExprOp::FloorDiv, b.constant(-7), b.constant(2));
  EXPECT_EQ(plan::evaluate_expressions(b.meta, {})[q], -4);
}

TEST(PlanMemory, OverlapsLifetimes) {
  PlanBuilder b;
  const Id size = b.constant(1000);
  const auto add = [&](Id first, Id last) {
    auto buffer = std::make_unique<fb::BufferT>();
    buffer->kind = fb::BufferKind::Arena;
    buffer->bytes = size;
    buffer->first_step = first;
    buffer->last_step = last;
    b.meta.buffers.push_back(std::move(buffer));
  };
  add(0, 1);
  add(1, 2);
  add(2, 3);
  const auto layout = plan::plan_memory(b.meta, plan::evaluate_expressions(b.meta, {}));
  EXPECT_EQ(layout.arena_bytes, 2048u);
  EXPECT_EQ(layout.unshared_bytes, 3072u);
  EXPECT_EQ(layout.offsets, (std::vector<std::uint64_t>{0, 1024, 0}));
}

TEST(PlanMemory, LiveBuffersNeverShareBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    PlanBuilder b;
    for (int i = 0; i < 40; ++i) {
      auto buffer = std::make_unique<fb::BufferT>();
      buffer->kind = fb::BufferKind::Arena;
      buffer->bytes = b.constant(random() % 5000);
      buffer->first_step = random() % 20;
      buffer->last_step = buffer->first_step + random() % 6;
      b.meta.buffers.push_back(std::move(buffer));
    }
    const auto values = plan::evaluate_expressions(b.meta, {});
    const auto layout = plan::plan_memory(b.meta, values);
    for (std::size_t i = 0; i < b.meta.buffers.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const auto& x = *b.meta.buffers[i];
        const auto& y = *b.meta.buffers[j];
        if (x.last_step < y.first_step || y.last_step < x.first_step) continue;
        const auto xs = static_cast<std::uint64_t>(values[x.bytes]);
        const auto ys = static_cast<std::uint64_t>(values[y.bytes]);
        if (xs == 0 || ys == 0) continue;
        EXPECT_TRUE(layout.offsets[i] + xs <= layout.offsets[j] ||
                    layout.offsets[j] + ys <= layout.offsets[i]);
        EXPECT_LE(layout.offsets[i] + xs, layout.arena_bytes);
      }
    }
  }
}

TEST(PlanMemory, ImpossibleSizesAreErrors) {
  for (const std::int64_t bytes : {std::int64_t{-1}, INT64_MAX}) {
    PlanBuilder b;
    b.meta.buffers.push_back(std::make_unique<fb::BufferT>());
    b.meta.buffers[0]->kind = fb::BufferKind::Arena;
    b.meta.buffers[0]->bytes = b.constant(bytes);
    EXPECT_THROW(plan::plan_memory(b.meta, plan::evaluate_expressions(b.meta, {})), Error);
  }
}

/// Makes the header fit the metadata again, so that the damage reaches the checks behind the hash.
void rehash(Bytes& bytes) {
  plan::FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  for (auto& section : header.sections)
    section.hash = plan::hash64(std::span(bytes).subspan(section.offset, section.size));
  header.hash =
      plan::hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(plan::FileHeader, hash)));
  std::memcpy(bytes.data(), &header, sizeof header);
}

/// Whatever the metadata says: refused, or accepted and then safe to bind and run.
void check_survives(const Bytes& bytes) {
  try {
    const Plan plan = Plan::from_memory(bytes);
    SessionOptions options;
    options.threads = 1;
    Session session(plan, options);
    const std::vector<char> data(1 << 16, 0);
    for (const BindingInfo& input : plan.inputs()) {
      TensorView view{input.dtype, {}, data.data(), Memory::kHost};
      for (const DimInfo& dim : input.shape)
        view.shape.push_back(std::min<std::int64_t>(dim.max, 3));
      if (view.byte_count() > data.size()) return;
      session.set_input(input.name, view);
    }
    session.run();
  } catch (const Error&) {
  }
}

TEST(PlanMutation, EveryByteOfTheMetadataWithGoodHashes) {
  const Bytes bytes = sample_as_entry();
  plan::FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  const auto& metadata = header.sections[0];
  for (std::uint64_t i = 0; i < metadata.size; ++i) {
    for (const int mask : {0x01, 0x10, 0xff}) {
      Bytes damaged = bytes;
      damaged[metadata.offset + i] ^= static_cast<std::byte>(mask);
      rehash(damaged);
      check_survives(damaged);
    }
  }
}

TEST(PlanMutation, ManyRandomBytesWithGoodHashes) {
  const Bytes bytes = sample_as_entry();
  plan::FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  const auto& metadata = header.sections[0];
  std::mt19937 random(42);
  for (int round = 0; round < 3000; ++round) {
    Bytes damaged = bytes;
    for (unsigned k = 1 + random() % 6; k > 0; --k)
      damaged[metadata.offset + random() % metadata.size] = static_cast<std::byte>(random());
    rehash(damaged);
    check_survives(damaged);
  }
}

}  // namespace
}  // namespace sinter::testing
