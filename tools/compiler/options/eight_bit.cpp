// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/eight_bit.h"

#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

// The passes and the option, which --help and the README show, have equal defaults.
static_assert(EightBitOptions{}.max_error == fusion::EightBitOptions{}.max_error);

fusion::ActivationScales to_fusion(ActivationScales scales) {
  switch (scales) {
    case ActivationScales::kToken: return fusion::ActivationScales::kToken;
    case ActivationScales::kBlock: return fusion::ActivationScales::kBlock;
    case ActivationScales::kStatic: break;
  }
  return fusion::ActivationScales::kStatic;
}

/// Throws if the options are inconsistent, or unsupported by the target.
void require_eight_bit_attention(const CompileOptions& options, const ir::TargetTraits& target) {
  const EightBitOptions& given = options.eight_bit;
  if (!(given.max_error > 0)) throw usage_error("--max-error must be above 0");
  for (const auto& [is_given, name] :
       {std::pair(options.packed, "--packed"),
        std::pair(options.serve.paging.has_value(), "--serve"),
        std::pair(!options.entries.empty(), "--entry"), std::pair(!options.fuse, "--fuse=off")})
    if (is_given)
      throw usage_error("--attention-precision fp8 does not go with {}: leave one of them out",
                        name);
  if (given.emulate || target.first_of("Attention", false) != nullptr) return;
  throw unsupported_error(
      "--attention-precision fp8: {}; leave it out, or write --emulate, which computes it in "
      "floats on rounded operands, as accurate and slower",
      target.generates_kernels
          ? "its kernels are for sm_90, whose warpgroups multiply 8 bits, and --target names "
            "another architecture"
          : "the target has no attention of 8 bits");
}

}  // namespace

bool has_eight_bit(Precision precision) {
  return precision == Precision::kInt8 || precision == Precision::kFloat8;
}

fusion::EightBitOptions eight_bit_to_fusion(const CompileOptions& options,
                                            const ir::TargetTraits& target) {
  const EightBitOptions& given = options.eight_bit;
  fusion::EightBitOptions result;
  const EightBitOptions defaults;
  const bool has_attention = options.attention_precision != AttentionPrecision::kModel;
  const bool is_asked_for =
      given.activation_scales != ActivationScales::kStatic || !given.per_channel ||
      given.smoothing || !given.include.empty() || !given.compensate ||
      (!has_attention && (given.emulate || given.max_error != defaults.max_error));
  if (!has_eight_bit(options.precision) && is_asked_for)
    throw usage_error(
        "--activation-scales, --weight-scales, --weight-rounding, --smooth, --include and "
        "--emulate are about --precision int8 or fp8 (--emulate about --attention-precision, "
        "too), which is not given");
  if (has_attention) {
    require_eight_bit_attention(options, target);
    result.attention = DType::kFloat8E4M3FN;
    result.emulate = given.emulate;
    result.max_error = given.max_error;
  }
  if (!has_eight_bit(options.precision)) return result;
  const auto name = to_string(options.precision);
  const bool is_four_by_eight =
      options.weights.bits == 4 && options.precision == Precision::kFloat8;
  if (options.weights.bits != 0 && !is_four_by_eight)
    throw usage_error(
        "--precision {} gives products operands of 8 bits, --weights {}{} weights alone: choose "
        "one of them, or --weights int4 with --precision fp8",
        name, options.weights.floats ? "fp" : "int", options.weights.bits);
  if (is_four_by_eight && given.activation_scales == ActivationScales::kBlock)
    throw usage_error(
        "--activation-scales block gives weights a scale for each block of 128 x 128, --weights "
        "int4 has scales of its own: --activation-scales token or static");
  if (is_four_by_eight && !given.per_channel)
    throw usage_error(
        "--weight-scales tensor is about weights of 8 bits; those of --weights int4 have a scale "
        "for each channel, or as :group=N says");
  if (given.smoothing && !(*given.smoothing >= 0 && *given.smoothing <= 1))
    throw usage_error("--smooth is {}: it is auto, off, or an exponent from 0 to 1",
                      *given.smoothing);
  if (given.smoothing && *given.smoothing > 0 && options.precision == Precision::kFloat8)
    throw usage_error(
        "--smooth is for --precision int8: floats of 8 bits have a range of their own in each "
        "column");
  if (!(given.max_error > 0)) throw usage_error("--max-error must be above 0");
  const bool is_integer = options.precision == Precision::kInt8;
  if (given.activation_scales == ActivationScales::kBlock && is_integer)
    throw usage_error(
        "--activation-scales block is for --precision fp8; integers have a scale for each row: "
        "--activation-scales token");
  if (given.activation_scales == ActivationScales::kBlock && !given.per_channel)
    throw usage_error(
        "--activation-scales block gives weights a scale for each block of 128 x 128: leave out "
        "--weight-scales tensor");
  const DType type = is_integer ? DType::kInt8 : DType::kFloat8E4M3FN;
  if (!given.emulate && target.sums("MatMul", type, type) == nullptr &&
      target.sums("Conv", type, type) == nullptr)
    throw unsupported_error(
        "--precision {}: the target has no products of {}; write {}, or --emulate, which computes "
        "them in float on rounded operands, as accurate and no faster",
        name, sinter::to_string(type), is_integer ? "--precision fp16" : "--precision int8");
  result.type = type;
  result.emulate = given.emulate;
  result.per_channel = given.per_channel;
  result.activation_scales = to_fusion(given.activation_scales);
  result.smoothing = given.smoothing;
  result.compensate = given.compensate;
  result.max_error = given.max_error;
  result.include = given.include;
  return result;
}

fusion::Precision precision_to_fusion(Precision precision, const ir::TargetTraits& target) {
  switch (precision) {
    case Precision::kFloat16: return fusion::Precision::kFloat16;
    case Precision::kBFloat16: return fusion::Precision::kBFloat16;
    case Precision::kTf32: return fusion::Precision::kTf32;
    case Precision::kInt8:
    case Precision::kFloat8:
      return target.generates_kernels ? fusion::Precision::kFloat16 : fusion::Precision::kModel;
    case Precision::kModel: break;
  }
  return fusion::Precision::kModel;
}

}  // namespace sinter::tools
