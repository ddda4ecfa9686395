// The work of each kind of step.
#include "runtime/plan/verify/verify_work.h"

#include <algorithm>
#include <cmath>

#include <sinter/scalar_op.h>

#include "runtime/plan/loop_values.h"
#include "runtime/plan/tensor_map_limits.h"

namespace sinter::plan {
namespace {

constexpr std::uint32_t kMaxThreads = 1024;         // of a CUDA block
constexpr std::uint32_t kMaxCluster = 16;           // blocks; 8 without asking the driver for more
constexpr std::uint32_t kMaxSharedBytes = 1 << 20;  // above what any GPU has
constexpr std::size_t kMostPackedArgs = 4095;       // 8 bytes each: what a kernel takes in all

void verify_conditions(const Checker& check, const std::vector<fb::Condition>& conditions) {
  for (const fb::Condition& condition : conditions) {
    check.expression(condition.expression(), "a condition's expression");
    if (condition.divisor() == 0 || condition.divisor() > INT64_MAX)
      check.fail("a condition's divisor is {}", condition.divisor());
  }
}

void verify_variant(const Checker& check, const fb::KernelVariantT& variant) {
  check.index(variant.module_, check.plan.modules.size(), "a variant's module", "modules");
  if (variant.function.empty()) check.fail("a kernel variant names no function");
  verify_conditions(check, variant.conditions);
  if (variant.grid.size() != 3 || variant.block.size() != 3)
    check.fail("kernel '{}' has {} grid and {} block dimensions instead of three each",
               variant.function, variant.grid.size(), variant.block.size());
  check.expressions(variant.grid, "a grid dimension");
  std::uint64_t threads = 1;
  for (const std::uint32_t size : variant.block) threads *= std::min(size, kMaxThreads + 1);
  if (threads == 0 || threads > kMaxThreads)
    check.fail("kernel '{}' has blocks of {} x {} x {} threads", variant.function, variant.block[0],
               variant.block[1], variant.block[2]);
  if (variant.shared_bytes > kMaxSharedBytes)
    check.fail("kernel '{}' asks for {} bytes of shared memory", variant.function,
               variant.shared_bytes);
  if (variant.cluster == 0 || variant.cluster > kMaxCluster)
    check.fail("kernel '{}' has clusters of {} blocks instead of 1 to {}", variant.function,
               variant.cluster, kMaxCluster);
  for (const std::uint32_t architecture : variant.architectures)
    check.index(architecture, check.plan.architectures.size(), "a variant's architecture",
                "architectures");
}

/// `written`: the step's outputs. Which way a kernel goes is in its code; it must be declared one
/// way or the other.
void verify_args(const Checker& check, const std::vector<fb::KernelArg>& args, bool packed,
                 const Buffers& written, Uses& uses) {
  if (packed && args.size() > kMostPackedArgs)
    check.fail("it packs {} arguments, at most {} fit", args.size(), kMostPackedArgs);
  for (const fb::KernelArg& arg : args) {
    check.in_range(arg.kind(), fb::ArgKind::MAX, "an argument's kind");
    if (packed && arg.kind() != fb::ArgKind::Buffer)
      check.fail("it packs an argument that is no buffer");
    if (arg.kind() != fb::ArgKind::Buffer) {
      check.expression(arg.index(), "an argument's expression");
    } else {
      check.buffer(arg.index(), "an argument's buffer");
      (written.contains(arg.index()) ? uses.writes : uses.reads).insert(arg.index());
    }
  }
}

void verify_map(const Checker& check, const fb::TensorMapT& map, const std::string& kernel) {
  constexpr std::uint32_t kMostInBox = 256;
  constexpr std::size_t kRowBytes = 128, kMostDimensions = 5;
  const std::size_t element =
      size_of(check.dtype(check.buffer(map.buffer, "a tensor map's buffer").dtype, "its buffer"));
  check.expression(map.offset, "a tensor map's offset");
  check.expressions(map.extents, "a tensor map's extent");
  check.expressions(map.strides, "a tensor map's stride");
  const std::size_t rank = map.extents.size();
  const bool windows = !map.lower.empty();
  if (rank < 2 || rank > kMostDimensions || map.strides.size() + 1 != rank ||
      map.box.size() != (windows ? 2 : rank))
    check.fail("kernel '{}' has a tensor map of {} extents, {} strides and a box of {} sizes",
               kernel, rank, map.strides.size(), map.box.size());
  for (const std::uint32_t size : map.box)
    if (size == 0 || size > kMostInBox)
      check.fail("kernel '{}' has a tensor map whose box is {} long", kernel, size);
  if (map.box[0] * element != kRowBytes)
    check.fail("kernel '{}' has a tensor map whose box has rows of {} bytes instead of {}", kernel,
               map.box[0] * element, kRowBytes);
  if (!windows && map.upper.empty() && map.steps.empty()) return;
  if (rank < 3 || map.lower.size() != rank - 2 || map.upper.size() != rank - 2 ||
      map.steps.size() != rank - 2)
    check.fail("kernel '{}' has a tensor map of {} extents whose windows have {}, {} and {} bounds",
               kernel, rank, map.lower.size(), map.upper.size(), map.steps.size());
  const int most = window_bound(rank);
  for (std::size_t d = 0; d + 2 < rank; ++d)
    if (map.lower[d] < -most || map.lower[d] >= most || map.upper[d] < -most ||
        map.upper[d] >= most || map.steps[d] < 1 || map.steps[d] > kMostWindowStep)
      check.fail("kernel '{}' has a tensor map whose windows go from {} to {} in steps of {}",
                 kernel, map.lower[d], map.upper[d], map.steps[d]);
}

void verify_kernel(const Checker& check, const fb::KernelStepT& work, const fb::StepT& step,
                   Uses& uses) {
  if (work.variants.empty()) check.fail("it has no kernel");
  for (const auto& variant : work.variants) {
    verify_variant(check, *variant);
    if (work.packed && !variant->maps.empty()) check.fail("it packs a tensor map");
    for (const auto& map : variant->maps) {
      verify_map(check, *map, variant->function);
      uses.reads.insert(map->buffer);
    }
  }
  const Buffers written(step.writes.begin(), step.writes.end());
  verify_args(check, work.args, work.packed, written, uses);
  for (const auto& variant : work.variants)
    verify_args(check, variant->args, work.packed, written, uses);
}

void verify_loop(const Checker& check, const fb::LoopProgramT& program, Uses& uses) {
  for (const std::uint32_t buffer : program.buffers) check.buffer(buffer, "a buffer");
  verify_loop_program(check, program);
  for (const auto& instr : program.instrs) {
    if (!is_memory(instr->kind)) continue;
    const std::uint32_t buffer = program.buffers[program.accesses[instr->access]->buffer];
    (instr->kind == fb::InstrKind::Load ? uses.reads : uses.writes).insert(buffer);
  }
}

/// All but which of its strides is one.
void verify_strided(const Checker& check, const fb::MatrixT& matrix, std::size_t batch,
                    const char* what) {
  const fb::BufferT& buffer = check.buffer(matrix.buffer, what);
  const DType dtype = check.dtype(matrix.dtype, what);
  if (buffer.dtype != matrix.dtype)
    check.fail("{} is of type {} in a buffer of type {}", what, to_string(dtype),
               to_string(static_cast<DType>(buffer.dtype)));
  check.expression(matrix.offset, what);
  check.expression(matrix.row_stride, what);
  check.expression(matrix.col_stride, what);
  if (matrix.batch_strides.size() != batch)
    check.fail("{} has {} batch strides for {} batch dimensions", what, matrix.batch_strides.size(),
               batch);
  check.expressions(matrix.batch_strides, what);
}

bool is_one(const Checker& check, std::uint32_t expression) {
  const fb::ExprNode& node = check.plan.expressions[expression];
  return node.op() == fb::ExprOp::Constant && node.value() == 1;
}

void verify_matrix(const Checker& check, const fb::MatrixT& matrix, std::size_t batch,
                   const char* what) {
  verify_strided(check, matrix, batch, what);
  if (static_cast<DType>(matrix.dtype) == DType::kBool)
    check.fail("{} is of type bool; products are of numbers", what);
  if (!is_one(check, matrix.row_stride) && !is_one(check, matrix.col_stride))
    check.fail("neither rows nor columns of {} are contiguous", what);
}

bool is_narrow(DType type) { return is_arithmetic_float(type) && type != DType::kFloat64; }

/// Operand b of quantized weights, and what they are made with.
void verify_quantization(const Checker& check, const fb::MatmulStepT& work, Uses& uses) {
  const fb::QuantizationT& quantization = *work.quantization;
  if (check.plan.target == "cuda")
    check.fail("a product with quantized weights must be a kernel on target 'cuda'");
  if (quantization.bits != 4 && quantization.bits != 8)
    check.fail("its weights have {} bits", quantization.bits);
  if (quantization.group == 0 || quantization.group > INT64_MAX)
    check.fail("its weights have groups of {}", quantization.group);
  const auto constant = [&](std::uint32_t expression) {
    const fb::ExprNode& node = check.plan.expressions[expression];
    return node.op() == fb::ExprOp::Constant ? node.value() : -1;
  };
  const std::int64_t k = constant(work.k);
  constexpr std::int64_t kMaxColumns = std::int64_t{1} << 48;
  const auto pitch = [&] { return quantization.bits == 8 ? k : k + k % 2; };
  const auto stored = static_cast<DType>(work.b->dtype);
  const bool is_plain = stored == (quantization.bits == 8 ? DType::kInt8 : DType::kUInt8) &&
                        k >= 0 && k <= kMaxColumns && constant(work.n) >= 0 &&
                        constant(work.b->offset) == 0 &&
                        (k == 1 || constant(work.b->row_stride) == 1) &&
                        (constant(work.n) <= 1 || constant(work.b->col_stride) == pitch());
  if (!is_plain)
    check.fail("operand b of type {} is no plain matrix of {}-bit weights", to_string(stored),
               quantization.bits);
  for (const std::uint32_t stride : work.b->batch_strides)
    if (constant(stride) != 0) check.fail("its quantized weights have a batch");
  const auto require_weight = [&](std::uint32_t buffer, const char* what) {
    if (check.buffer(buffer, what).kind != fb::BufferKind::Weight)
      check.fail("{} are in buffer {}, which is an {}", what, buffer,
                 fb::EnumNameBufferKind(check.buffer(buffer, what).kind));
  };
  require_weight(work.b->buffer, "its quantized weights");
  require_weight(quantization.scales, "its scales");
  if (!is_narrow(static_cast<DType>(work.a->dtype)) ||
      !is_narrow(static_cast<DType>(work.d->dtype)))
    check.fail("a product of {} with quantized weights into {}",
               to_string(static_cast<DType>(work.a->dtype)),
               to_string(static_cast<DType>(work.d->dtype)));
  const DType scales = check.dtype(check.buffer(quantization.scales, "its scales").dtype, "scales");
  if (!is_narrow(scales)) check.fail("its scales are of type {}", to_string(scales));
  uses.reads.insert(quantization.scales);
  if (quantization.zero_points < -1)
    check.fail("its zero points are buffer {}", quantization.zero_points);
  if (quantization.zero_points < 0) return;
  const auto zeros = static_cast<std::uint32_t>(quantization.zero_points);
  require_weight(zeros, "its zero points");
  const DType type = check.dtype(check.buffer(zeros, "its zero points").dtype, "zero points");
  if (type != DType::kInt8 && type != DType::kFloat32)
    check.fail("its zero points are of type {}", to_string(type));
  uses.reads.insert(zeros);
}

/// Integers of 8 bits, of either sign, multiplied into their sums.
bool are_narrow(std::uint8_t a, std::uint8_t b, std::uint8_t result) {
  const auto is_narrow = [](std::uint8_t type) {
    return static_cast<DType>(type) == DType::kInt8 || static_cast<DType>(type) == DType::kUInt8;
  };
  return is_narrow(a) && is_narrow(b) && static_cast<DType>(result) == DType::kInt32;
}

/// Products of 8-bit floats may be of both formats.
bool mixes_float8(const fb::MatmulStepT& work) {
  return is_float8(static_cast<DType>(work.a->dtype)) &&
         is_float8(static_cast<DType>(work.b->dtype));
}

void verify_matmul(const Checker& check, const fb::MatmulStepT& work, Uses& uses) {
  check.expression(work.m, "m");
  check.expression(work.n, "n");
  check.expression(work.k, "k");
  check.rank(work.batch.size(), "the batch");
  check.expressions(work.batch, "a batch dimension");
  check.in_range(work.activation, fb::Activation::GeluTanh, "its activation");
  check.in_range(work.math, fb::MathMode::MAX, "its math mode");
  verify_matrix(check, *work.a, work.batch.size(), "operand a");
  verify_matrix(check, *work.b, work.batch.size(), "operand b");
  verify_matrix(check, *work.d, work.batch.size(), "result d");
  if (work.quantization)
    verify_quantization(check, work, uses);
  else if (work.a->dtype != work.b->dtype && !mixes_float8(work) &&
           !are_narrow(work.a->dtype, work.b->dtype, work.d->dtype))
    check.fail("its operands are of types {} and {}", to_string(static_cast<DType>(work.a->dtype)),
               to_string(static_cast<DType>(work.b->dtype)));
  uses.reads.insert({work.a->buffer, work.b->buffer});
  uses.writes.insert(work.d->buffer);
  if (work.residual) {
    verify_matrix(check, *work.residual, work.batch.size(), "the residual");
    if (work.residual->dtype != work.d->dtype) check.fail("the residual is not of d's type");
    uses.reads.insert(work.residual->buffer);
  }
  if (work.bias < -1) check.fail("its bias is buffer {}", work.bias);
  if (work.bias >= 0) {
    const auto bias = static_cast<std::uint32_t>(work.bias);
    if (check.buffer(bias, "the bias").dtype != work.d->dtype)
      check.fail("the bias is not of d's type");
    uses.reads.insert(bias);
  }
}

/// Strides, dilations and pads beyond it cannot occur and would overflow sums.
constexpr std::uint64_t kMaxWindow = std::uint64_t{1} << 31;

void verify_conv(const Checker& check, const fb::ConvStepT& work, Uses& uses) {
  const std::size_t rank = work.input_shape.size();
  if (rank < 3 || rank > 5 || work.weight_shape.size() != rank || work.output_shape.size() != rank)
    check.fail(
        "its input, weight and output have {}, {} and {} dimensions; all must have the same "
        "number, 3 to 5",
        rank, work.weight_shape.size(), work.output_shape.size());
  check.expressions(work.input_shape, "an input dimension");
  check.expressions(work.weight_shape, "a weight dimension");
  check.expressions(work.output_shape, "an output dimension");
  for (const auto* list : {&work.strides, &work.dilations, &work.pads_begin, &work.pads_end}) {
    if (list->size() != rank - 2)
      check.fail("it has {} strides, {} dilations, {} and {} pads for {} spatial dimensions",
                 work.strides.size(), work.dilations.size(), work.pads_begin.size(),
                 work.pads_end.size(), rank - 2);
    const bool may_be_zero = list == &work.pads_begin || list == &work.pads_end;
    for (const std::uint64_t value : *list)
      if (value > kMaxWindow || (value == 0 && !may_be_zero))
        check.fail("{} is not a possible stride, dilation or pad", value);
  }
  if (work.group == 0 || work.group > kMaxWindow) check.fail("it has {} groups", work.group);
  check.in_range(work.activation, fb::Activation::MAX, "its activation");
  check.in_range(work.math, fb::MathMode::MAX, "its math mode");
  const fb::BufferT& input = check.buffer(work.input, "its input");
  const fb::BufferT& weight = check.buffer(work.weight, "its weight");
  const fb::BufferT& output = check.buffer(work.output, "its output");
  const bool has_narrow_operands = are_narrow(input.dtype, weight.dtype, output.dtype);
  if (!has_narrow_operands && (!is_arithmetic_float(static_cast<DType>(input.dtype)) ||
                               input.dtype != weight.dtype || input.dtype != output.dtype))
    check.fail(
        "its input, weight and output are of types {}, {} and {}; all must be one float type, or "
        "integers of 8 bits and i32",
        to_string(static_cast<DType>(input.dtype)), to_string(static_cast<DType>(weight.dtype)),
        to_string(static_cast<DType>(output.dtype)));
  uses.reads.insert({work.input, work.weight});
  uses.writes.insert(work.output);
  for (const auto& [index, what] : {std::pair(work.bias, "bias"), {work.residual, "residual"}}) {
    if (index < -1) check.fail("its {} is buffer {}", what, index);
    if (index < 0) continue;
    const auto buffer = static_cast<std::uint32_t>(index);
    if (has_narrow_operands) check.fail("a convolution of integers has a {}", what);
    if (check.buffer(buffer, what).dtype != input.dtype)
      check.fail("the {} is not of the input's type", what);
    uses.reads.insert(buffer);
  }
  if (has_narrow_operands && work.activation != fb::Activation::None)
    check.fail("a convolution of integers has an activation");
}

/// True for arena memory that no other step can see.
bool lives_in_step_alone(const Checker& check, std::uint32_t index) {
  const fb::BufferT& buffer = check.buffer(index, "a buffer it writes");
  return buffer.kind == fb::BufferKind::Arena && buffer.first_step == buffer.last_step;
}

void verify_sort(const Checker& check, const fb::SortStepT& work, Uses& uses) {
  const fb::BufferT& input = check.buffer(work.input, "its input");
  const fb::BufferT& output = check.buffer(work.output, "its output");
  const DType type = check.dtype(input.dtype, "its input");
  if (type == DType::kBool || is_float8(type)) check.fail("it sorts {} elements", to_string(type));
  if (static_cast<DType>(output.dtype) != DType::kInt64)
    check.fail("its output is not of type i64");
  for (const std::uint32_t size : {work.outer, work.length, work.inner, work.count})
    check.expression(size, "a size");
  uses.reads.insert(work.input);
  uses.writes.insert(work.output);
}

/// What the tables hold is checked where they are packed.
void verify_trees(const Checker& check, const fb::TreeStepT& work, Uses& uses) {
  constexpr std::uint32_t kMost = 1U << 30;
  const auto type = static_cast<DType>(check.buffer(work.rows_of, "its rows").dtype);
  if (type != DType::kFloat32 && type != DType::kFloat64) check.fail("its rows are not f32 or f64");
  const auto is = [&](std::uint32_t buffer, DType wanted, bool weight, const char* what) {
    const fb::BufferT& of = check.buffer(buffer, what);
    if (static_cast<DType>(of.dtype) != wanted)
      check.fail("{} are not of type {}", what, to_string(wanted));
    if (weight && of.kind != fb::BufferKind::Weight) check.fail("{} are no weights", what);
  };
  is(work.result, type, false, "its results");
  is(work.thresholds, type, true, "its thresholds");
  is(work.weights, type, true, "its leaves' weights");
  is(work.nodes, DType::kInt32, true, "its nodes");
  is(work.trees, DType::kInt32, true, "its trees");
  check.expression(work.rows, "the number of rows");
  if (work.columns > kMost || work.targets > kMost || work.width == 0 || work.width > work.targets)
    check.fail("it has {} columns, {} targets and {} weights of a leaf", work.columns, work.targets,
               work.width);
  if (work.combine != static_cast<std::uint8_t>(Combine::kSum) &&
      work.combine != static_cast<std::uint8_t>(Combine::kMax) &&
      work.combine != static_cast<std::uint8_t>(Combine::kMin))
    check.fail("it combines trees in way {}, which there is not", work.combine);
  if (work.result == work.rows_of) check.fail("its results lie where its rows do");
  uses.reads.insert({work.rows_of, work.thresholds, work.weights, work.nodes, work.trees});
  uses.writes.insert(work.result);
}

void verify_suppression(const Checker& check, const fb::SuppressionStepT& work, Uses& uses) {
  const auto is = [&](std::uint32_t buffer, DType type, const char* what) {
    if (static_cast<DType>(check.buffer(buffer, what).dtype) != type)
      check.fail("{} are not of type {}", what, to_string(type));
  };
  is(work.boxes, DType::kFloat32, "its boxes");
  is(work.valid, DType::kBool, "its flags");
  is(work.kept, DType::kBool, "its results");
  if (work.kept == work.valid) check.fail("its results lie where its flags do");
  for (const std::uint32_t size : {work.rows, work.length}) check.expression(size, "a size");
  uses.reads.insert({work.boxes, work.valid});
  uses.writes.insert(work.kept);
}

void verify_sampling(const Checker& check, const fb::SamplingStepT& work, Uses& uses) {
  const auto type_of = [&](std::uint32_t buffer, const char* what) {
    return check.dtype(check.buffer(buffer, what).dtype, what);
  };
  const auto is = [&](std::uint32_t buffer, DType type, const char* what) {
    if (type_of(buffer, what) != type) check.fail("{} are not of type {}", what, to_string(type));
  };
  const DType logits = type_of(work.logits, "its logits");
  if (!is_float(logits) || !is_narrow(logits) || is_float8(logits))
    check.fail("its logits are of type {}", to_string(logits));
  is(work.reals, DType::kFloat64, "its real parameters");
  is(work.integers, DType::kInt64, "its integer parameters");
  is(work.sets, DType::kInt32, "its sets of tokens");
  is(work.biased, DType::kInt32, "its tokens with a bias");
  is(work.biases, DType::kFloat32, "its biases");
  is(work.tokens, DType::kInt32, "its results");
  for (const std::uint32_t size : {work.rows, work.vocabulary, work.sets_rows, work.biases_count})
    check.expression(size, "a size");
  uses.reads.insert({work.logits, work.reals, work.integers, work.sets, work.biased, work.biases});
  uses.writes.insert(work.tokens);
  if (uses.reads.contains(work.tokens)) check.fail("its results lie where its inputs do");
}

void verify_attention(const Checker& check, const fb::AttentionStepT& work, Uses& uses) {
  constexpr std::uint64_t kMostHead = 4096;
  for (const std::uint64_t head : {work.head, work.value_head})
    if (head == 0 || head > kMostHead) check.fail("it has heads of {} columns", head);
  if (work.causal > 2) check.fail("its causal mask is of the unknown kind {}", work.causal);
  if (work.guard > 2) check.fail("its guard is of the unknown kind {}", work.guard);
  if (!(work.softcap >= 0) || std::isinf(work.softcap))
    check.fail("its soft cap is {}", work.softcap);
  check.expression(work.rows, "the number of rows");
  check.expression(work.keys, "the number of keys");
  check.rank(work.batch.size(), "the batch");
  check.expressions(work.batch, "a batch dimension");
  for (const auto& [matrix, what] : {std::pair(work.q.get(), "its queries"),
                                     {work.k.get(), "its keys"},
                                     {work.v.get(), "its values"},
                                     {work.y.get(), "its result"}}) {
    verify_strided(check, *matrix, work.batch.size(), what);
    const auto type = static_cast<DType>(matrix->dtype);
    const bool has_scales = work.key_scales && (matrix == work.k.get() || matrix == work.v.get());
    if (has_scales ? type != DType::kInt8 && type != DType::kFloat8E4M3FN
                   : !is_narrow(type) || is_float8(type) || matrix->dtype != work.q->dtype)
      check.fail("{} are of type {}{} beside queries of type {}", what, to_string(type),
                 has_scales ? " with scales" : "", to_string(static_cast<DType>(work.q->dtype)));
    if (!is_one(check, matrix->col_stride))
      check.fail("the columns of {} are not contiguous", what);
  }
  uses.reads.insert({work.q->buffer, work.k->buffer, work.v->buffer});
  uses.writes.insert(work.y->buffer);
  if (!work.key_scales != !work.value_scales || (work.key_scales && work.bounds && !work.tables))
    check.fail("its keys and values have no scales each, or are packed beside them");
  for (const plan::fb::MatrixT* scales : {work.key_scales.get(), work.value_scales.get()}) {
    if (scales == nullptr) continue;
    verify_strided(check, *scales, work.batch.size(), "scales of its keys or values");
    if (static_cast<DType>(scales->dtype) != DType::kFloat32)
      check.fail("scales of its keys or values are of type {}, not f32",
                 to_string(static_cast<DType>(scales->dtype)));
    uses.reads.insert(scales->buffer);
  }
  if (work.mask) {
    verify_strided(check, *work.mask, work.batch.size(), "its mask");
    const auto type = static_cast<DType>(work.mask->dtype);
    if (type != DType::kBool && !is_narrow(type))
      check.fail("its mask is of type {}", to_string(type));
    uses.reads.insert(work.mask->buffer);
  }
  if (work.limits) {
    verify_strided(check, *work.limits, work.batch.size(), "its limits");
    if (!is_integer(static_cast<DType>(work.limits->dtype)))
      check.fail("its limits are of type {}", to_string(static_cast<DType>(work.limits->dtype)));
    uses.reads.insert(work.limits->buffer);
  }
  if (work.bounds) {
    if (work.tables ? work.mask || !work.limits || work.causal != 0
                    : work.mask || work.limits || work.causal != 0)
      check.fail("its packed sequences have a mask, limits or a causal mask beside their bounds");
    check.expression(work.sequences, "the number of sequences");
    check.expression(work.longest, "the most rows of a sequence");
    verify_strided(check, *work.bounds, work.batch.size(), "its bounds");
    if (static_cast<DType>(work.bounds->dtype) != (work.tables ? DType::kInt32 : DType::kInt64))
      check.fail("its bounds are of type {}", to_string(static_cast<DType>(work.bounds->dtype)));
    uses.reads.insert(work.bounds->buffer);
  }
  if (!work.tables) return;
  if (!work.bounds) check.fail("it has block tables of no sequences");
  check.expression(work.table_blocks, "the blocks of a table");
  verify_strided(check, *work.tables, work.batch.size(), "its block tables");
  if (static_cast<DType>(work.tables->dtype) != DType::kInt32)
    check.fail("its block tables are of type {}",
               to_string(static_cast<DType>(work.tables->dtype)));
  constexpr std::uint32_t kMostKeys = 256;
  if (work.block < 1 || work.block > kMostKeys || (work.block & (work.block - 1)) != 0)
    check.fail("a block of its caches has {} keys", work.block);
  uses.reads.insert(work.tables->buffer);
}

void verify_host(const Checker& check, const fb::HostStepT& work, Uses& uses) {
  // What a loader is told of the plan's code is all of it.
  if (std::ranges::none_of(check.plan.custom_code, [&](const auto& code) {
        return code->kind == fb::CodeKind::Host && code->name == work.operator_name;
      }))
    check.fail("operator '{}' is not among the plan's custom code", work.operator_name);
  const auto add = [&](const fb::HostTensorT& tensor, const char* what, Buffers& to) {
    check.dtype(check.buffer(tensor.buffer, what).dtype, what);
    check.rank(tensor.shape.size(), what);
    check.expressions(tensor.shape, "a size");
    return to.insert(tensor.buffer).second;
  };
  for (const auto& input : work.inputs) add(*input, "its input", uses.reads);
  for (const auto& output : work.outputs)
    if (!add(*output, "its output", uses.writes) || uses.reads.contains(output->buffer))
      check.fail("its output lies in buffer {}, where another of its tensors does", output->buffer);
  if (work.outputs.empty()) check.fail("it has no outputs");
  for (const auto& attribute : work.attributes)
    if (attribute->name.empty()) check.fail("it has an attribute without a name");
}

void verify_copy(const Checker& check, const fb::CopyStepT& work, Uses& uses) {
  check.buffer(work.source, "its source");
  check.buffer(work.target, "its target");
  if (work.source == work.target) check.fail("it copies buffer {} to itself", work.source);
  check.expression(work.bytes, "its size");
  uses.reads.insert(work.source);
  uses.writes.insert(work.target);
}

void verify_while(const Checker& check, const fb::WhileStepT& work, Uses& uses) {
  const auto one = [&](std::uint32_t buffer, DType type, const char* what) {
    if (static_cast<DType>(check.buffer(buffer, what).dtype) != type)
      check.fail("{} is not of type {}", what, to_string(type));
  };
  if (work.trips < -1 || work.condition < -1)
    check.fail("it has expression {} for its trips and buffer {} for its condition", work.trips,
               work.condition);
  if (work.trips >= 0)
    check.expression(static_cast<std::uint32_t>(work.trips), "the number of its iterations");
  if (work.condition >= 0) {
    const auto condition = static_cast<std::uint32_t>(work.condition);
    one(condition, DType::kBool, "its condition");
    uses.reads.insert(condition);
  } else if (work.trips < 0) {
    check.fail("nothing ends it: it has neither a number of iterations nor a condition");
  }
  one(work.counter, DType::kInt64, "the number of the iteration");
  uses.writes.insert(work.counter);
}

void verify_if(const Checker& check, const fb::IfStepT& work, Uses& uses) {
  if (static_cast<DType>(check.buffer(work.condition, "its condition").dtype) != DType::kBool)
    check.fail("its condition is not of type bool");
  uses.reads.insert(work.condition);
}

void verify_choice(const Checker& check, const fb::StepT& step, const fb::TacticStepT& choice,
                   Uses& uses) {
  if (choice.tactics.empty()) check.fail("it has no tactic");
  if (!choice.tactics.back()->conditions.empty())
    check.fail("its last tactic '{}' has conditions: some sizes would be left without any",
               choice.tactics.back()->name);
  for (const auto& tactic : choice.tactics) {
    verify_conditions(check, tactic->conditions);
    if (tactic->parts.empty()) check.fail("its tactic '{}' is empty", tactic->name);
    Buffers written;
    for (const auto& part : tactic->parts) {
      const fb::Work kind = part->work.type;
      if (kind != fb::Work::KernelStep && kind != fb::Work::MatmulStep &&
          kind != fb::Work::ConvStep && kind != fb::Work::CopyStep)
        check.fail("its tactic '{}' has a part of kind {}, which cannot be one", tactic->name,
                   static_cast<int>(kind));
      if (kind == fb::Work::ConvStep && &tactic == &choice.tactics.back())
        check.fail("its last tactic '{}' needs a library of convolutions, which may be missing",
                   tactic->name);
      const Uses part_uses = verify_work(check, step, part->work);
      // What an earlier part has written is the step's own.
      for (const std::uint32_t buffer : part_uses.reads)
        if (!written.contains(buffer)) uses.reads.insert(buffer);
      written.insert(part_uses.writes.begin(), part_uses.writes.end());
    }
    // Later steps read what this one declares, whichever way it was done; scratch may differ.
    for (const std::uint32_t buffer : step.writes)
      if (!written.contains(buffer) && !lives_in_step_alone(check, buffer))
        check.fail("its tactic '{}' does not write buffer {}", tactic->name, buffer);
    uses.writes.insert(written.begin(), written.end());
  }
}

}  // namespace

Uses verify_work(const Checker& check, const fb::StepT& step, const fb::WorkUnion& work) {
  Uses uses;
  const bool cuda = check.plan.target == "cuda";
  if (work.type != fb::Work::NONE && !work.value) check.fail("its work is missing");
  switch (work.type) {
    case fb::Work::KernelStep:
      if (!cuda) check.fail("a kernel cannot run on target '{}'", check.plan.target);
      verify_kernel(check, *work.AsKernelStep(), step, uses);
      break;
    case fb::Work::LoopStep:
      if (cuda) check.fail("a loop program cannot run on target '{}'", check.plan.target);
      verify_loop(check, *work.AsLoopStep()->program, uses);
      break;
    case fb::Work::MatmulStep: verify_matmul(check, *work.AsMatmulStep(), uses); break;
    case fb::Work::ConvStep: verify_conv(check, *work.AsConvStep(), uses); break;
    case fb::Work::CopyStep: verify_copy(check, *work.AsCopyStep(), uses); break;
    case fb::Work::SortStep:
      if (cuda) check.fail("a sort cannot run on target '{}'", check.plan.target);
      verify_sort(check, *work.AsSortStep(), uses);
      break;
    case fb::Work::AttentionStep:
      if (cuda) check.fail("an attention step cannot run on target '{}'", check.plan.target);
      verify_attention(check, *work.AsAttentionStep(), uses);
      break;
    case fb::Work::SamplingStep:
      if (cuda) check.fail("a sampling step cannot run on target '{}'", check.plan.target);
      verify_sampling(check, *work.AsSamplingStep(), uses);
      break;
    case fb::Work::SuppressionStep:
      if (cuda) check.fail("a suppression step cannot run on target '{}'", check.plan.target);
      verify_suppression(check, *work.AsSuppressionStep(), uses);
      break;
    case fb::Work::TreeStep:
      if (cuda) check.fail("a tree step cannot run on target '{}'", check.plan.target);
      verify_trees(check, *work.AsTreeStep(), uses);
      break;
    case fb::Work::HostStep: verify_host(check, *work.AsHostStep(), uses); break;
    case fb::Work::TacticStep:
      if (!cuda) check.fail("a choice cannot run on target '{}'", check.plan.target);
      verify_choice(check, step, *work.AsTacticStep(), uses);
      break;
    case fb::Work::WhileStep: verify_while(check, *work.AsWhileStep(), uses); break;
    case fb::Work::IfStep: verify_if(check, *work.AsIfStep(), uses); break;
    case fb::Work::ExtentStep:
      if (check.buffer(work.AsExtentStep()->extent, "its extent").kind != fb::BufferKind::Extent)
        check.fail("buffer {} is no extent", work.AsExtentStep()->extent);
      uses.reads.insert(work.AsExtentStep()->extent);
      break;
    default: check.fail("its work has the unknown kind {}", static_cast<int>(work.type));
  }
  return uses;
}

}  // namespace sinter::plan
