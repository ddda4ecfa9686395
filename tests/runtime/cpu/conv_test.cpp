// SPDX-License-Identifier: Apache-2.0
// Convolutions on the CPU against their definition.
#include <cmath>
#include <iterator>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/runtime/library_check.h"
#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing {
namespace {

struct ConvCase {
  std::string name;
  std::int64_t batch, channels, filters;
  std::uint64_t group;
  std::vector<std::int64_t> image, kernel;
  std::vector<std::uint64_t> strides, dilations, pads_begin, pads_end;
  bool bias = false;
  fb::Activation activation = fb::Activation::None;
  float activation_a = 0, activation_b = 0;
  bool residual = false;
  DType type = DType::kFloat32;
  bool special = false;  // NaN and infinities among the elements of x and of the residual
};

void PrintTo(const ConvCase& conv, std::ostream* out) { *out << conv.name; }

/// `data`, of dense `shape` with channels second, with channels last; `shape` follows.
Bytes channels_last(DType type, const Bytes& data, std::vector<std::int64_t>& shape) {
  const std::size_t size = size_of(type);
  const std::int64_t n = shape[0], c = shape[1],
                     rest = static_cast<std::int64_t>(data.size() / size) / (n * c);
  Bytes result(data.size());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < c; ++j)
      for (std::int64_t k = 0; k < rest; ++k)
        std::copy_n(data.data() + static_cast<std::size_t>((i * c + j) * rest + k) * size, size,
                    result.data() + static_cast<std::size_t>((i * rest + k) * c + j) * size);
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return result;
}

/// A convolution, whether channels are last, and whether its weights are computed: kernels want
/// those in an order that the plan does not have.
class CpuConv : public ::testing::TestWithParam<std::tuple<ConvCase, bool, bool>> {};

TEST_P(CpuConv, AgreesWithTheDefinition) {
  const auto& [c, last, computed] = GetParam();
  const std::size_t spatial = c.image.size();
  const auto group = static_cast<std::int64_t>(c.group);
  std::vector<std::int64_t> input{c.batch, c.channels}, weight{c.filters, c.channels / group},
      output{c.batch, c.filters};
  for (std::size_t d = 0; d < spatial; ++d) {
    input.push_back(c.image[d]);
    weight.push_back(c.kernel[d]);
    const auto window = static_cast<std::int64_t>(c.dilations[d]) * (c.kernel[d] - 1) + 1;
    output.push_back(
        (c.image[d] + static_cast<std::int64_t>(c.pads_begin[d] + c.pads_end[d]) - window) /
            static_cast<std::int64_t>(c.strides[d]) +
        1);
  }
  const auto count = [](const std::vector<std::int64_t>& shape) {
    std::int64_t n = 1;
    for (const std::int64_t dim : shape) n *= dim;
    return n;
  };
  Bytes x = random_bytes(c.type, count(input), 1), w = random_bytes(c.type, count(weight), 2);
  const Bytes bias = random_bytes(c.type, c.filters, 3);
  Bytes residual = random_bytes(c.type, count(output), 4);
  if (c.special) {
    add_special(c.type, x, c.activation);
    add_special(c.type, residual, c.activation);
  }
  const auto next = [](std::vector<std::int64_t>& index, const std::vector<std::int64_t>& shape) {
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < shape[d]) return true;
      index[d] = 0;
    }
    return false;
  };
  const auto offset = [](const std::vector<std::int64_t>& index,
                         const std::vector<std::int64_t>& shape) {
    std::int64_t result = 0;
    for (std::size_t d = 0; d < index.size(); ++d) result = result * shape[d] + index[d];
    return result;
  };
  Bytes expected(static_cast<std::size_t>(count(output)) * size_of(c.type));
  std::vector<std::int64_t> at(spatial + 2, 0);
  do {
    double sum = c.bias ? element(c.type, bias, at[1]) : 0;
    std::vector<std::int64_t> tap(spatial + 1, 0);
    const std::vector<std::int64_t> taps(weight.begin() + 1, weight.end());
    do {
      std::vector<std::int64_t> from{at[0], at[1] / (c.filters / group) * weight[1] + tap[0]};
      bool inside = true;
      for (std::size_t d = 0; d < spatial; ++d) {
        from.push_back(at[d + 2] * static_cast<std::int64_t>(c.strides[d]) +
                       tap[d + 1] * static_cast<std::int64_t>(c.dilations[d]) -
                       static_cast<std::int64_t>(c.pads_begin[d]));
        inside &= from.back() >= 0 && from.back() < c.image[d];
      }
      if (!inside) continue;
      std::vector<std::int64_t> weight_at{at[1]};
      weight_at.insert(weight_at.end(), tap.begin(), tap.end());
      sum +=
          element(c.type, x, offset(from, input)) * element(c.type, w, offset(weight_at, weight));
    } while (next(tap, taps));
    if (c.residual) sum += element(c.type, residual, offset(at, output));
    set_element(c.type, expected, offset(at, output),
                activate(c.activation, sum, c.activation_a, c.activation_b));
  } while (next(at, output));

  if (last) {
    x = channels_last(c.type, x, input);
    w = channels_last(c.type, w, weight);
    std::vector<std::int64_t> shape = output;
    residual = channels_last(c.type, residual, shape);
    expected = channels_last(c.type, expected, output);
  }
  PlanBuilder p;
  const auto ids = [&](const std::vector<std::int64_t>& shape) {
    std::vector<Id> result;
    for (const std::int64_t dim : shape) result.push_back(p.constant(dim));
    return result;
  };
  fb::ConvStepT work;
  work.input = p.input("x", c.type, ids(input));
  work.weight =
      computed ? p.input("w", c.type, ids(weight)) : p.weight_bytes(c.type, w.data(), w.size());
  work.output = p.output("y", c.type, ids(output));
  if (c.bias) work.bias = static_cast<int>(p.weight_bytes(c.type, bias.data(), bias.size()));
  work.input_shape = ids(input);
  work.weight_shape = ids(weight);
  work.output_shape = ids(output);
  work.strides = c.strides;
  work.dilations = c.dilations;
  work.pads_begin = c.pads_begin;
  work.pads_end = c.pads_end;
  work.group = c.group;
  work.activation = c.activation;
  work.activation_a = c.activation_a;
  work.activation_b = c.activation_b;
  work.channels_last = last;
  if (c.residual) work.residual = static_cast<int>(p.input("r", c.type, ids(output)));
  p.conv("conv", std::move(work));

  const Plan plan = p.build();
  Bytes first;
  for (const int threads : {1, 2, 4}) {
    SessionOptions options;
    options.threads = threads;
    Session session(plan, options);
    session.set_input("x", {c.type, input, x.data()});
    if (computed) session.set_input("w", {c.type, weight, w.data()});
    if (c.residual) session.set_input("r", {c.type, output, residual.data()});
    session.run();
    expect_close(c.type, expected, session.output("y"));
    session.run();
    const TensorView y = session.output("y");
    expect_close(c.type, expected, y);
    const auto* data = static_cast<const std::byte*>(y.data);
    const Bytes bytes(data, data + y.byte_count());
    if (threads == 1) first = bytes;
    EXPECT_EQ(bytes, first) << threads << " threads give another result than one";
  }
}

/// A pointwise convolution that adds a residual and ends with `activation`.
ConvCase ending(std::string name, fb::Activation activation, float a = 0, float b = 0) {
  return {std::move(name), 2,      8,      20,   1,          {6, 7}, {1, 1}, {1, 1},
          {1, 1},          {0, 0}, {0, 0}, true, activation, a,      b,      true};
}

/// One of many positions, of which threads take rows.
ConvCase divided(std::string name, std::vector<std::uint64_t> strides,
                 std::vector<std::uint64_t> begin, std::vector<std::uint64_t> end) {
  return {std::move(name),
          2,
          16,
          24,
          1,
          {41, 30},
          {3, 3},
          std::move(strides),
          {1, 1},
          begin,
          end,
          true,
          fb::Activation::Relu,
          0,
          0,
          true};
}

const ConvCase kConvCases[] = {
    {"one_dimension", 2, 8, 16, 1, {30}, {5}, {1}, {1}, {0}, {0}, true, fb::Activation::GeluErf},
    {"strided", 1, 4, 6, 1, {31}, {3}, {2}, {1}, {1}, {1}, false, fb::Activation::Relu},
    {"image", 2, 3, 16, 1, {17, 19}, {3, 3}, {2, 1}, {1, 1}, {1, 0}, {1, 2}, true},
    {"dilated", 1, 4, 8, 1, {20, 20}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}, true},
    {"grouped", 1, 8, 16, 4, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
    {"depthwise",
     2,
     16,
     16,
     16,
     {9, 9},
     {3, 3},
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1},
     true,
     fb::Activation::GeluTanh},
    {"depthwise_wide", 1, 6, 6, 6, {37, 70}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, true},
    {"depthwise_even", 2, 3, 3, 3, {12, 33}, {5, 4}, {1, 1}, {1, 1}, {2, 1}, {2, 2}},
    {"depthwise_narrow",
     1,
     8,
     8,
     8,
     {7, 7},
     {3, 3},
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1},
     true,
     fb::Activation::Relu,
     0,
     0,
     true},
    {"depthwise_strided", 1, 5, 5, 5, {23, 41}, {3, 5}, {2, 3}, {1, 1}, {1, 2}, {0, 3}, true},
    {"depthwise_in_pairs", 2, 5, 5, 5, {23, 41}, {3, 5}, {1, 2}, {1, 1}, {1, 2}, {0, 3}, true},
    {"depthwise_in_wide_pairs", 1, 3, 3, 3, {9, 200}, {3, 3}, {2, 2}, {1, 2}, {1, 1}, {1, 1}, true},
    {"depthwise_dilated", 1, 5, 5, 5, {23, 41}, {3, 3}, {1, 2}, {2, 3}, {2, 3}, {2, 1}, true},
    {"depthwise_multiplied", 1, 4, 12, 4, {9, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
    {"depthwise_beyond", 1, 4, 4, 4, {3, 5}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, true},
    {"depthwise_sequence", 2, 6, 6, 6, {300}, {31}, {1}, {1}, {15}, {15}, true},
    {"depthwise_clipped",
     1,
     4,
     4,
     4,
     {9, 9},
     {3, 3},
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1},
     true,
     fb::Activation::Clip,
     -0.5F,
     0.75F},
    {"volume", 1, 2, 4, 1, {5, 6, 7}, {2, 3, 2}, {1, 2, 1}, {1, 1, 1}, {0, 1, 1}, {1, 1, 0}, true},
    {"pointwise", 1, 32, 64, 1, {8, 8}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, true},
    {"column", 1, 16, 24, 1, {40, 1}, {5, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, true},
    {"single", 2, 16, 24, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, true},
    {"large", 1, 64, 64, 1, {24, 24}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
    {"divided_channels",
     1,
     256,
     130,
     1,
     {5, 4},
     {3, 3},
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1},
     true,
     fb::Activation::Silu,
     0,
     0,
     true},
    divided("divided", {2, 1}, {1, 0}, {2, 1}),
    divided("divided_unstrided", {1, 1}, {2, 2}, {2, 2}),
    divided("divided_padding_alone", {1, 1}, {9, 1}, {9, 1}),
    ending("residual", fb::Activation::None),
    ending("relu", fb::Activation::Relu),
    ending("sigmoid", fb::Activation::Sigmoid),
    ending("tanh", fb::Activation::Tanh),
    ending("silu", fb::Activation::Silu),
    ending("hard_sigmoid", fb::Activation::HardSigmoid, 0.2F, 0.4F),
    ending("hard_swish", fb::Activation::HardSwish, 1.0F / 6, 0.5F),
    ending("steep_hard_swish", fb::Activation::HardSwish, 0.3F, 0.5F),
    ending("shifted_hard_swish", fb::Activation::HardSwish, 0.25F, 0.25F),
    ending("leaky_relu", fb::Activation::LeakyRelu, 0.1F),
    ending("clip", fb::Activation::Clip, -0.5F, 0.75F),
};

/// Kernels of many kinds, each with NaN and every activation.
std::vector<ConvCase> special_convolutions() {
  const ConvCase shapes[] = {
      {"image", 2, 3, 16, 1, {17, 19}, {3, 3}, {2, 1}, {1, 1}, {1, 0}, {1, 2}, true},
      {"large", 1, 16, 48, 1, {13, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
      {"odd", 1, 5, 7, 1, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, false},
      {"grouped", 1, 15, 15, 3, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
      {"depthwise", 1, 16, 16, 16, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
      {"depthwise_odd", 1, 6, 12, 6, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
      {"pointwise", 1, 32, 64, 1, {8, 8}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, true},
      {"product", 1, 64, 32, 1, {17, 16}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, true},
      {"channels", 1, 256, 130, 1, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
      {"volume", 1, 2, 4, 1, {5, 6, 7}, {2, 3, 2}, {1, 2, 1}, {1, 1, 1}, {0, 1, 1}, {1, 1, 0}},
  };
  using fb::Activation;
  const std::tuple<Activation, float, float> activations[] = {
      {Activation::Relu, 0.0F, 0.0F},      {Activation::Clip, 0.0F, 6.0F},
      {Activation::Clip, -1.0F, 1.0F},     {Activation::HardSigmoid, 0.2F, 0.4F},
      {Activation::HardSwish, 0.3F, 0.5F}, {Activation::LeakyRelu, 0.1F, 0.0F},
      {Activation::LeakyRelu, 0.0F, 0.0F}, {Activation::Sigmoid, 0.0F, 0.0F},
      {Activation::Tanh, 0.0F, 0.0F},      {Activation::Silu, 0.0F, 0.0F},
      {Activation::GeluErf, 0.0F, 0.0F},   {Activation::GeluTanh, 0.0F, 0.0F}};
  std::vector<ConvCase> cases;
  for (const ConvCase& shape : shapes)
    for (std::size_t i = 0; i < std::size(activations); ++i) {
      ConvCase c = shape;
      std::tie(c.activation, c.activation_a, c.activation_b) = activations[i];
      c.special = true;
      c.residual = (i + cases.size() / std::size(activations)) % 2 == 1;
      c.name = fmt::format("special_{}_{}_{}", c.name, fb::EnumNameActivation(c.activation), i);
      cases.push_back(c);
    }
  return cases;
}

std::string name_of_convolution(const ::testing::TestParamInfo<CpuConv::ParamType>& info) {
  const auto& [conv, last, computed] = info.param;
  return conv.name + (last ? "_channels_last" : "") + (computed ? "_of_computed_weights" : "");
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuConv,
                         ::testing::Combine(::testing::ValuesIn(kConvCases), ::testing::Bool(),
                                            ::testing::Bool()),
                         name_of_convolution);
INSTANTIATE_TEST_SUITE_P(Special, CpuConv,
                         ::testing::Combine(::testing::ValuesIn(special_convolutions()),
                                            ::testing::Bool(), ::testing::Values(false)),
                         name_of_convolution);

}  // namespace
}  // namespace sinter::testing
