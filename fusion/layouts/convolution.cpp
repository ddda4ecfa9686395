// SPDX-License-Identifier: Apache-2.0
#include "fusion/layouts/convolution.h"

#include <algorithm>
#include <numeric>

#include "fusion/layouts/views.h"
#include "ir/ops/product_types.h"

namespace sinter::fusion {
namespace {

bool all_equal(const Node& node, const char* attr, std::int64_t expected) {
  const auto& values = node.attrs.get_ints(attr);
  return std::ranges::all_of(values, [&](auto v) { return v == expected; });
}

ValueId reshaped(GraphBuilder& builder, ValueId value, Shape shape) {
  return add_view(builder, "Reshape", value, {{"shape", std::move(shape)}});
}

class ChannelsLastConv {
 public:
  ChannelsLastConv(GraphBuilder& builder, const Node& node, std::span<const ValueId> inputs)
      : builder_(builder),
        node_(node),
        x_(inputs[0]),
        w_(inputs[1]),
        w_shape_(builder.type(w_).shape),
        spatial_(w_shape_.size() - 2),
        is_grouped_(node.attrs.get_int("group") != 1) {
    if (inputs.size() > 2) bias_ = inputs[2];
    for (std::size_t d = 0; d < spatial_; ++d) kernel_.push_back(w_shape_[d + 1].value());
  }

  ValueId as_kernels() {
    if (!is_grouped_ && is_tiled() && (is_single() || is_transposed())) return patches();
    if (w_shape_.back() == Dim(1) && w_shape_.front() == Dim(node_.attrs.get_int("group")))
      return depthwise();
    if (!is_grouped_ && is_transposed()) fill_channels();
    return plain();
  }

  ValueId plain() {
    Attrs attrs = node_.attrs;
    attrs.set("channels_last", std::int64_t{1});
    std::vector<ValueId> inputs{x_, w_};
    if (bias_.valid()) inputs.push_back(bias_);
    return builder_.add("Conv", inputs, attrs);
  }

 private:
  bool is_single() const {
    return std::ranges::all_of(kernel_, [](auto k) { return k == 1; });
  }

  /// Adjacent windows without gaps.
  bool is_tiled() const {
    const Shape& x = builder_.type(x_).shape;
    for (std::size_t d = 0; d < spatial_; ++d)
      if (!ir::is_multiple_of(x[d + 1], kernel_[d])) return false;
    return node_.attrs.get_ints("strides") == kernel_ && all_equal(node_, "dilations", 1) &&
           all_equal(node_, "pads_begin", 0) && all_equal(node_, "pads_end", 0);
  }

  /// True if x is stored again for its layout: that kernel may do more.
  bool is_transposed() const {
    const Node* producer = builder_.producer(x_);
    return producer != nullptr && producer->op->name == "Transpose";
  }

  /// A matmul of windows as rows, [n, o.., k.. * c], and weights.
  ValueId patches() {
    if (!is_single()) {
      const Shape x = builder_.type(x_).shape;
      Shape split{x[0]}, rows{x[0]};
      Perm windows_first{0}, taps;
      Dim columns = x.back();
      for (std::size_t d = 0; d < spatial_; ++d) {
        rows.push_back(*ir::divide_exactly(x[d + 1], Dim(kernel_[d])));
        split.insert(split.end(), {rows.back(), Dim(kernel_[d])});
        columns *= Dim(kernel_[d]);
        windows_first.push_back(static_cast<std::int64_t>(1 + 2 * d));
        taps.push_back(static_cast<std::int64_t>(2 + 2 * d));
      }
      split.push_back(x.back());
      rows.push_back(columns);
      windows_first.insert(windows_first.end(), taps.begin(), taps.end());
      windows_first.push_back(static_cast<std::int64_t>(split.size()) - 1);
      x_ = reshaped(builder_, x_, split);
      x_ = builder_.add("Transpose", {x_}, {{"perm", windows_first}});
      x_ = reshaped(builder_, x_, rows);
    }
    const Dim k = builder_.type(x_).shape.back();
    // The layout of the weights: GEMMs take both, and K-major is faster.
    const ValueId columns = builder_.add(
        "Transpose", {reshaped(builder_, w_, {w_shape_.front(), k})}, {{"perm", Perm{1, 0}}});
    return with_bias(builder_.add("MatMul", {x_, columns}));
  }

  /// Depthwise: windows [n, k.., o.., c] times weights, summed.
  ValueId depthwise() {
    Attrs windows{{"kernel", kernel_}, {"channels_last", std::int64_t{1}}};
    for (const char* name : {"strides", "dilations", "pads_begin", "pads_end"})
      windows.set(name, node_.attrs.get(name));
    // 8-bit products are as wide as their sums.
    const ValueId unfolded = summed(builder_.add("Unfold", {x_}, windows));
    // [c, k.., 1] -> [k.., windows of one.., c]
    Perm channel_last(spatial_ + 1), axes(spatial_);
    std::iota(channel_last.begin(), channel_last.end() - 1, 1);
    std::iota(axes.begin(), axes.end(), 1);
    Shape taps(w_shape_.begin() + 1, w_shape_.end() - 1);
    taps.insert(taps.end(), spatial_, Dim(1));
    taps.push_back(w_shape_.front());
    ValueId weights = reshaped(builder_, w_, Shape(w_shape_.begin(), w_shape_.end() - 1));
    weights = add_view(builder_, "Transpose", weights, {{"perm", channel_last}});
    weights = summed(reshaped(builder_, weights, taps));
    return with_bias(builder_.add("ReduceSum", {builder_.add("Mul", {unfolded, weights})},
                                  {{"axes", axes}, {"keepdims", std::int64_t{0}}}));
  }

  /// Zero-pads channels to the multiple that copies of 16 bytes need.
  void fill_channels() {
    constexpr std::int64_t kCopyBytes = 16;
    const auto size = static_cast<std::int64_t>(size_of(builder_.type(x_).dtype));
    if (size > 2 || !w_shape_.back().is_constant() || w_shape_.back() == Dim(1)) return;
    const std::int64_t step = kCopyBytes / size, more = -w_shape_.back().value() & (step - 1);
    if (more == 0) return;
    std::vector<Dim> begins(w_shape_.size(), Dim(0)), ends = begins;
    ends.back() = Dim(more);
    const Attrs pad{{"begins", begins}, {"ends", ends}, {"fill", 0.0}};
    x_ = builder_.add("Pad", {x_}, pad);
    w_ = add_view(builder_, "Pad", w_, pad);
  }

  ValueId summed(ValueId value) {
    const auto sums = ir::product_type(builder_.type(x_).dtype, builder_.type(w_).dtype);
    if (!sums || *sums == builder_.type(value).dtype) return value;
    return builder_.add("Cast", {value}, {{"to", *sums}});
  }

  ValueId with_bias(ValueId value) {
    return bias_.valid() ? builder_.add("Add", {value, bias_}) : value;
  }

  GraphBuilder& builder_;
  const Node& node_;
  ValueId x_, w_, bias_;
  const Shape w_shape_;
  const std::size_t spatial_;
  const bool is_grouped_;
  Ints kernel_;
};

}  // namespace

ValueId add_channels_last_conv(GraphBuilder& builder, const Node& node,
                               std::span<const ValueId> inputs, bool as_kernels) {
  ChannelsLastConv conv(builder, node, inputs);
  return as_kernels ? conv.as_kernels() : conv.plain();
}

}  // namespace sinter::fusion
