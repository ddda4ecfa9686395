// SPDX-License-Identifier: Apache-2.0
// A causal depthwise convolution of a ragged batch, whose sequences keep their last inputs in
// slots.
//
// CausalConv(x, states, offsets, sources, weights, bias?) {dilation} -> out
// CausalConvStates(x, states, offsets, sources, slots, stores) -> new_states
//
//   x        [tokens, channels], of all sequences end to end
//   states   [slots, kept, channels], of x's type: the inputs before the next token, the latest
//            last. kept = dilation * (taps - 1)
//   offsets  i32 [tokens]: how many tokens of its sequence are in front of it
//   sources  i32 [tokens]: the slot with its sequence's inputs before these; below 0: zeros
//   weights  [channels, taps]; the last tap is of the token itself
//   bias     [channels]
//   slots    i32 [tokens]: the slot that gets the inputs up to the token; below 0: none
//   stores   i32 [stores]: the tokens whose slots are not below 0, repeated by padding
//   out      as x, new_states as states
//
// Sums are float32 or wider. Of two sequences no slot that one writes is one that the other reads
// or writes. They are two operators so that the states can be changed in place when all have read
// them.
#include <fmt/format.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/graph.h"
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

enum Input : std::uint8_t { kX, kStates, kOffsets, kSources, kWeights, kBias };
enum StatesInput : std::uint8_t { kSlots = 4, kStores };

void check_rows(Types inputs, std::size_t integers) {
  const TensorType &x = inputs[kX], &states = inputs[kStates];
  const auto refuse = [&] {
    return fmt::format(
        "needs x [tokens, channels], states [slots, kept, channels] of its type, and i32 [tokens]; "
        "found {}",
        list_types(inputs));
  };
  if (x.shape.size() != 2 || states.shape.size() != 3 || !is_float(x.dtype) ||
      states.dtype != x.dtype || !states.shape[1].is_constant() || !x.shape[1].is_constant())
    invalid(refuse());
  require_equal(states.shape[2], x.shape[1], refuse);
  for (std::size_t i = kOffsets; i < kOffsets + integers; ++i) {
    if (inputs[i].dtype != DType::kInt32 || inputs[i].shape.size() != 1) invalid(refuse());
    if (i != kStores) require_equal(inputs[i].shape, Shape{x.shape[0]}, refuse);
  }
}

std::vector<TensorType> infer_causal_conv(const Attrs& attrs, Types inputs) {
  check_rows(inputs, 2);
  const Shape &x = inputs[kX].shape, &weights = inputs[kWeights].shape;
  const std::int64_t dilation = attrs.get_int("dilation"), kept = inputs[kStates].shape[1].value();
  const auto refuse = [&] {
    return fmt::format("weights must be [channels, kept / dilation + 1], found {} and dilation {}",
                       list_types(inputs), dilation);
  };
  if (dilation < 1 || kept % dilation != 0) invalid(refuse());
  require_equal(weights, Shape{x[1], Dim(kept / dilation + 1)}, refuse);
  if (inputs.size() > kBias) require_equal(inputs[kBias].shape, Shape{x[1]}, refuse);
  return {inputs[kX]};
}

std::vector<TensorType> infer_states(const Attrs&, Types inputs) {
  check_rows(inputs, 4);
  return {inputs[kStates]};
}

/// The reference: elements of x in front of tokens.
class Before {
 public:
  explicit Before(Tensors inputs)
      : inputs_(inputs), kept_(inputs[kStates].shape()[1]), channels_(inputs[kX].shape()[1]) {}

  double at(std::int64_t token, std::int64_t back, std::int64_t channel) const {
    const std::int64_t offset = inputs_[kOffsets].at_int(token),
                       source = inputs_[kSources].at_int(token);
    if (offset >= back) return inputs_[kX].at((token - back) * channels_ + channel);
    if (source < 0) return 0;
    return inputs_[kStates].at((source * kept_ + kept_ + offset - back) * channels_ + channel);
  }
  std::int64_t kept() const { return kept_; }
  std::int64_t channels() const { return channels_; }

 private:
  Tensors inputs_;
  std::int64_t kept_, channels_;
};

std::vector<Tensor> evaluate_causal_conv(const Attrs& attrs, Tensors inputs, Types outputs) {
  const Before before(inputs);
  const std::int64_t dilation = attrs.get_int("dilation"), taps = before.kept() / dilation + 1,
                     tokens = inputs[kX].shape()[0];
  std::vector<double> out;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t c = 0; c < before.channels(); ++c) {
      double sum = inputs.size() > kBias ? inputs[kBias].at(c) : 0;
      for (std::int64_t tap = 0; tap < taps; ++tap)
        sum += inputs[kWeights].at(c * taps + tap) * before.at(t, (taps - 1 - tap) * dilation, c);
      out.push_back(sum);
    }
  return {Tensor::from_doubles(outputs[0].dtype, inputs[kX].shape(), out)};
}

std::vector<Tensor> evaluate_states(const Attrs&, Tensors inputs, Types outputs) {
  const Before before(inputs);
  std::vector<double> states = inputs[kStates].to_doubles();
  for (std::int64_t s = 0; s < inputs[kStores].element_count(); ++s) {
    const std::int64_t token = inputs[kStores].at_int(s), slot = inputs[kSlots].at_int(token);
    for (std::int64_t i = 0; i < before.kept(); ++i)
      for (std::int64_t c = 0; c < before.channels(); ++c)
        states[static_cast<std::size_t>((slot * before.kept() + i) * before.channels() + c)] =
            before.at(token, before.kept() - 1 - i, c);
  }
  return {Tensor::from_doubles(outputs[0].dtype, inputs[kStates].shape(), states)};
}

/// The inputs in front of tokens, of their own run or of their sequence's state.
class AsGathers {
 public:
  AsGathers(GraphBuilder& builder, std::span<const ValueId> inputs) : b_(builder), inputs_(inputs) {
    const Shape& states = b_.type(inputs[kStates]).shape;
    kept_ = states[1].value();
    rows_ = reshape(inputs[kStates], {states[0] * states[1], states[2]});
    wide_ = b_.type(inputs[kX]).dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  }

  ValueId convolved(std::int64_t dilation) {
    const std::int64_t taps = kept_ / dilation + 1;
    const TensorType x = b_.type(inputs_[kX]);
    const Dim tokens = x.shape[0], channels = x.shape[1];
    const ValueId places = iota({tokens}, 0);
    ValueId sum;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t back = (taps - 1 - tap) * dilation;
      const ValueId before = back == 0 ? inputs_[kX]
                                       : inputs_before(places, wide(inputs_[kOffsets]),
                                                       wide(inputs_[kSources]), number(back));
      const ValueId weight = b_.add("Slice", {inputs_[kWeights]},
                                    {{"starts", std::vector<Dim>{Dim(0), Dim(tap)}},
                                     {"steps", Ints{1, 1}},
                                     {"shape", Shape{channels, Dim(1)}}});
      const ValueId product =
          b_.add("Mul", {cast(before, wide_), cast(reshape(weight, {channels}), wide_)});
      sum = sum.valid() ? b_.add("Add", {sum, product}) : product;
    }
    if (inputs_.size() > kBias) sum = b_.add("Add", {sum, cast(inputs_[kBias], wide_)});
    return cast(sum, x.dtype);
  }

  ValueId stored() {
    const Dim stores = b_.type(inputs_[kStores]).shape[0], channels = b_.type(inputs_[kX]).shape[1];
    const ValueId tokens = inputs_[kStores];
    const auto column = [&](ValueId value) { return reshape(wide(value), {stores, Dim(1)}); };
    const ValueId index = iota({Dim(1), Dim(kept_)}, 1);
    const ValueId back = b_.add("Sub", {number(kept_ - 1), index});
    const ValueId updates = inputs_before(column(tokens), column(gather(inputs_[kOffsets], tokens)),
                                          column(gather(inputs_[kSources], tokens)), back);
    const ValueId slot = reshape(wide(gather(inputs_[kSlots], tokens)), {stores, Dim(1), Dim(1)});
    return b_.add("Scatter",
                  {inputs_[kStates], updates, slot, reshape(index, {Dim(1), Dim(kept_), Dim(1)}),
                   iota({Dim(1), Dim(1), channels}, 2)},
                  {{"combine", std::string("none")}, {"distinct", std::int64_t{1}}});
  }

 private:
  ValueId cast(ValueId value, DType to) {
    return b_.type(value).dtype == to ? value : b_.add("Cast", {value}, {{"to", Attr(to)}});
  }
  ValueId wide(ValueId value) { return cast(value, DType::kInt64); }
  ValueId reshape(ValueId value, Shape shape) {
    if (b_.type(value).shape == shape) return value;
    return b_.add("Reshape", {value}, {{"shape", std::move(shape)}});
  }
  ValueId number(std::int64_t value) {
    return b_.scalar(DType::kInt64, static_cast<double>(value));
  }
  ValueId iota(const Shape& shape, std::int64_t axis) {
    return b_.add("Iota", {}, {{"shape", shape}, {"axis", axis}, {"dtype", Attr(DType::kInt64)}});
  }
  ValueId gather(ValueId rows, ValueId index) {
    return b_.add("Gather", {rows, index}, {{"axis", std::int64_t{0}}});
  }
  /// `condition` with one more dimension behind.
  ValueId of_rows(ValueId condition) {
    Shape shape = b_.type(condition).shape;
    shape.emplace_back(1);
    return reshape(condition, shape);
  }

  /// The inputs `back` tokens in front of the tokens at `places`, [.., channels].
  ValueId inputs_before(ValueId places, ValueId offsets, ValueId sources, ValueId back) {
    const ValueId zero = number(0);
    const ValueId is_near = b_.add("GreaterOrEqual", {offsets, back});
    const ValueId is_kept = b_.add("GreaterOrEqual", {sources, zero});
    const ValueId near_by = b_.add("Max", {b_.add("Sub", {places, back}), zero});
    const ValueId first = b_.add("Mul", {sources, number(kept_)});
    const ValueId row =
        b_.add("Add", {first, b_.add("Sub", {b_.add("Add", {offsets, number(kept_)}), back})});
    const ValueId is_read = b_.add("And", {is_kept, b_.add("Not", {is_near})});
    const ValueId far = gather(rows_, b_.add("Where", {is_read, row, zero}));
    const ValueId nothing = b_.scalar(b_.type(rows_).dtype, 0);
    return b_.add("Where", {of_rows(is_near), gather(inputs_[kX], near_by),
                            b_.add("Where", {of_rows(is_kept), far, nothing})});
  }

  GraphBuilder& b_;
  std::span<const ValueId> inputs_;
  std::int64_t kept_ = 0;
  ValueId rows_;  // of all states
  DType wide_ = DType::kFloat32;
};

}  // namespace

std::vector<OpDef> causal_conv_ops() {
  return {{.name = "CausalConv",
           .kind = OpKind::kComposite,
           .min_inputs = 5,
           .max_inputs = 6,
           .attrs = {{"dilation", AttrKind::kInt, Attr(std::int64_t{1})}},
           .infer = infer_causal_conv,
           .evaluate = evaluate_causal_conv,
           .detail = CompositeDef{[](GraphBuilder& builder, const Node& node,
                                     std::span<const ValueId> inputs) {
             const std::int64_t dilation = node.attrs.get_int("dilation");
             return std::vector{AsGathers(builder, inputs).convolved(dilation)};
           }}},
          {.name = "CausalConvStates",
           .kind = OpKind::kComposite,
           .min_inputs = 6,
           .max_inputs = 6,
           .infer = infer_states,
           .evaluate = evaluate_states,
           .detail = CompositeDef{
               [](GraphBuilder& builder, const Node&, std::span<const ValueId> inputs) {
                 return std::vector{AsGathers(builder, inputs).stored()};
               }}}};
}

}  // namespace sinter::ir::ops
