// SPDX-License-Identifier: Apache-2.0
// A causal depthwise convolution of a ragged batch, whose sequences keep their last inputs in
// slots.
//
// CausalConv(x, weights, states, offsets, sources, slots, stores, bias?) {dilation}
//   -> out, new_states
//
//   x        [tokens, channels], of all sequences end to end
//   weights  [channels, taps]; the last tap is of the token itself
//   states   [slots, kept, channels], of x's type: the inputs before the next token, the latest
//            last. kept = dilation * (taps - 1)
//   offsets  i32 [tokens]: how many tokens of its sequence are in front of it
//   sources  i32 [tokens]: the slot with its sequence's inputs before these; below 0: zeros
//   slots    i32 [tokens]: the slot that gets the inputs up to the token; below 0: none
//   stores   i32 [stores]: the tokens whose slots are not below 0, repeated by padding
//   bias     [channels]
//   out      [tokens, channels], new_states as states
//
// Sums are float32 or wider. Of two sequences no slot that one writes is one that the other reads
// or writes.
#include <fmt/format.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/graph.h"
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

enum Input : std::uint8_t {
  kX,
  kWeights,
  kStates,
  kOffsets,
  kSources,
  kSlots,
  kStores,
  kBias,
};

std::vector<TensorType> infer_causal_conv(const Attrs& attrs, Types inputs) {
  const TensorType &x = inputs[kX], &weights = inputs[kWeights], &states = inputs[kStates];
  const auto refuse = [&] {
    return fmt::format(
        "needs x [tokens, channels], weights [channels, taps], states [slots, dilation * (taps - "
        "1), channels] of one type of floats, i32 [tokens] three times and [stores]; found {}",
        list_types(inputs));
  };
  if (x.shape.size() != 2 || weights.shape.size() != 2 || states.shape.size() != 3 ||
      !is_float(x.dtype) || states.dtype != x.dtype || !weights.shape[1].is_constant() ||
      !x.shape[1].is_constant())
    invalid(refuse());
  for (std::size_t i = kOffsets; i <= kStores; ++i)
    if (inputs[i].dtype != DType::kInt32 || inputs[i].shape.size() != 1) invalid(refuse());
  const std::int64_t dilation = attrs.get_int("dilation"), taps = weights.shape[1].value();
  if (dilation < 1 || taps < 2) invalid(refuse());
  require_equal(weights.shape[0], x.shape[1], refuse);
  require_equal(states.shape, Shape{states.shape[0], Dim(dilation * (taps - 1)), x.shape[1]},
                refuse);
  for (std::size_t i = kOffsets; i < kStores; ++i)
    require_equal(inputs[i].shape, Shape{x.shape[0]}, refuse);
  if (inputs.size() > kBias) require_equal(inputs[kBias].shape, Shape{x.shape[1]}, refuse);
  return {x, states};
}

/// The inputs in front of tokens, of their own run or of their sequence's state.
class AsGathers {
 public:
  AsGathers(GraphBuilder& builder, const Node& node, std::span<const ValueId> inputs)
      : b_(builder), inputs_(inputs), dilation_(node.attrs.get_int("dilation")) {
    const Shape& states = b_.type(inputs[kStates]).shape;
    kept_ = states[1].value();
    taps_ = kept_ / dilation_ + 1;
    rows_ = reshape(inputs[kStates], {states[0] * states[1], states[2]});
    wide_ = b_.type(inputs[kX]).dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  }

  std::vector<ValueId> run() {
    const TensorType x = b_.type(inputs_[kX]);
    const Dim tokens = x.shape[0], channels = x.shape[1];
    const ValueId places = iota({tokens}, 0);
    ValueId sum;
    for (std::int64_t tap = 0; tap < taps_; ++tap) {
      const std::int64_t back = (taps_ - 1 - tap) * dilation_;
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
    return {cast(sum, x.dtype), stored(channels)};
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

  ValueId stored(const Dim& channels) {
    const Dim stores = b_.type(inputs_[kStores]).shape[0];
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

  GraphBuilder& b_;
  std::span<const ValueId> inputs_;
  std::int64_t dilation_, kept_ = 0, taps_ = 0;
  ValueId rows_;  // of all states
  DType wide_ = DType::kFloat32;
};

}  // namespace

std::vector<OpDef> causal_conv_ops() {
  return {{.name = "CausalConv",
           .kind = OpKind::kComposite,
           .min_inputs = 7,
           .max_inputs = 8,
           .attrs = {{"dilation", AttrKind::kInt, Attr(std::int64_t{1})}},
           .infer = infer_causal_conv,
           .detail = CompositeDef{
               [](GraphBuilder& builder, const Node& node, std::span<const ValueId> inputs) {
                 return AsGathers(builder, node, inputs).run();
               }}}};
}

}  // namespace sinter::ir::ops
