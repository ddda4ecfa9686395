// SPDX-License-Identifier: Apache-2.0
// Windows of signals as formulas, and transforms.
#include <cmath>
#include <numbers>

#include "frontend/model/initializers.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"
#include "ir/constants/fourier.h"
#include "ir/scalar_math.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;

constexpr double kTwoPi = 2 * std::numbers::pi;
constexpr std::int64_t kMostEntries = std::int64_t{1} << 24;  // of a matrix

/// a - b cos(2 pi i / n) + c cos(4 pi i / n); n is the size, minus one if not periodic.
void cosine_window(NodeContext& node, double a, double b, double c) {
  const Dim size = node.size(0, "size");
  const DType dtype =
      require_dtype(static_cast<int>(node.attr_int("output_datatype", 1)), "the result");
  const bool periodic = node.attr_int("periodic", 1) != 0;
  const DType compute = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
  const Dim period = ir::max(periodic ? size : size - Dim(1), 1, node.builder().ranges());
  const Term angle = iota(node, size, 0, 1, compute) * kTwoPi / size_of_dim(node, period, compute);
  Term window = a - angle.apply("Cos") * b;
  if (c != 0) window = window + (angle * 2).apply("Cos") * c;
  node.output(window.cast(dtype).value());
}

// Coefficients of the ONNX operator specification.
void hann_window(NodeContext& node) { cosine_window(node, 0.5, 0.5, 0); }
void hamming_window(NodeContext& node) { cosine_window(node, 25.0 / 46, 21.0 / 46, 0); }
void blackman_window(NodeContext& node) { cosine_window(node, 0.42, 0.5, 0.08); }

std::int64_t constant_size(NodeContext& node, const Dim& dim, const char* what) {
  if (!dim.is_constant()) node.unsupported("{} {} is symbolic; it must be known", what, dim);
  return dim.value();
}

/// A matrix of rows x columns with elements f(row, column).
template <typename F>
Term matrix(NodeContext& node, DType dtype, std::int64_t rows, std::int64_t columns, F f) {
  if (columns > 0 && rows > kMostEntries / columns)
    node.unsupported("a transform of length {}", rows);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) values.push_back(f(r, c));
  return {node, node.builder().constant(Tensor::from_doubles(dtype, {rows, columns}, values))};
}

/// A Dft of `x` (ir/ops/transform.cpp) of that length.
ValueId transform(NodeContext& node, ValueId x, std::int64_t length, ir::Attrs attrs,
                  std::optional<ValueId> window = std::nullopt) {
  if (length > kMostEntries / attrs.get_int("count"))
    node.unsupported("a transform of length {}", length);
  attrs.set("length", length);
  std::vector<ValueId> operands = {x, node.builder().constant(ir::roots_of_unity(length))};
  if (window) operands.push_back(*window);
  return node.add("Dft", std::move(operands), std::move(attrs));
}

/// A transform whose length only the run knows: matmuls of `x` [.., size] (`complex`: [.., size,
/// 2]) with a matrix that the run makes, [.., count, 2]. Elements from `length` on do not count.
ValueId transform_by_matrix(NodeContext& node, ValueId x, bool complex, const Dim& length,
                            const Dim& count, bool inverse) {
  const Term all(node, x);
  const DType type = all.dtype(), compute = type == DType::kFloat64 ? type : DType::kFloat32;
  Shape shape = all.shape();
  if (complex) shape.pop_back();
  const Dim size = shape.back();
  const Term n = size_of_dim(node, length);
  // i k modulo n as integers: the angle is then as exact at the end as at the beginning.
  const Term i = iota(node, size, 0, 2);
  const Term turns = (i * iota(node, count, 1, 2)).with("Mod", n);
  const Term angle = turns.cast(compute) * kTwoPi / n.cast(compute);
  const auto entries = [&](const Term& values) {
    const Term scaled = inverse ? values / n.cast(compute) : values;
    return size == length ? scaled : select(i.with("Less", n), scaled, scaled.number(0));
  };
  const Term cosine = entries(angle.apply("Cos")), sine = entries(angle.apply("Sin"));
  const std::size_t last = shape.size();
  const auto part_of = [&](std::int64_t p) {
    const Term one = complex ? slice_one(all, last, p).reshape(shape) : all;
    return one.cast(compute);
  };
  const auto product = [&](const Term& values, const Term& matrix) {
    return Term(node, node.add("MatMul", {values.value(), matrix.value()}));
  };
  // exp(-i t) forwards: real a + imaginary b become a cos + b sin, and b cos - a sin.
  const Term real = part_of(0);
  Term re = product(real, cosine), im = product(real, sine);
  if (!inverse) im = im.apply("Neg");
  if (complex) {
    const Term imaginary = part_of(1), turned = product(imaginary, sine);
    re = inverse ? re - turned : re + turned;
    im = im + product(imaginary, cosine);
  }
  Shape pair = re.shape();
  pair.emplace_back(1);
  return node.cast(node.concat({re.reshape(pair).value(), im.reshape(pair).value()},
                               static_cast<std::int64_t>(last)),
                   type);
}

void check_parts(NodeContext& node, ValueId x) {
  if (node.rank(x) < 2 || (node.shape(x).back() != Dim(1) && node.shape(x).back() != Dim(2)))
    node.invalid("input must have a last dimension of 1 (real) or 2 (complex), but is {}",
                 node.type(x));
}

void dft(NodeContext& node) {
  const ValueId input = node.x();
  check_parts(node, input);
  const std::int64_t rank = node.rank(input);
  std::int64_t axis = node.opset() >= 20 ? -2 : node.attr_int("axis", 1);
  if (node.opset() >= 20 && node.has_input(2)) axis = node.ints(2, "axis").at(0);
  axis = node.normalise_axis(axis, rank);
  if (axis == rank - 1) node.invalid("axis is the last dimension, which holds complex numbers");
  const bool inverse = node.attr_int("inverse", 0) != 0;
  const bool onesided = node.attr_int("onesided", 0) != 0;
  const Dim size = node.shape(input)[static_cast<std::size_t>(axis)];
  Dim length = inverse && onesided ? Dim(2) * (size - Dim(1)) : size;
  if (node.has_input(1)) length = node.size(1, "dft_length");
  if (length.is_constant() && length.value() < 1) node.invalid("dft_length is {}", length);

  // The axis goes to the end, before the parts of numbers.
  const bool complex = node.shape(input).back() == Dim(2), half = inverse && onesided;
  Ints to_end, back;
  for (std::int64_t d = 0; d < rank - 1; ++d) {
    if (d != axis) to_end.push_back(d);
    back.push_back(d < axis ? d : d == axis ? rank - 2 : d - 1);
  }
  to_end.push_back(axis);
  to_end.push_back(rank - 1);
  back.push_back(rank - 1);
  ValueId x = node.transpose(input, to_end);
  if (!complex) {
    Shape shape = node.shape(x);
    shape.pop_back();
    x = node.reshape(x, shape);
  }
  const ir::Ranges& ranges = node.builder().ranges();
  const Dim count = onesided && !half ? ir::floor_div(length, 2, ranges) + Dim(1) : length;
  if (!length.is_constant() || !size.is_constant()) {
    if (half) node.unsupported("a one-sided inverse transform of symbolic length {}", length);
    node.at_least(length, 1);
    return node.output(
        node.transpose(transform_by_matrix(node, x, complex, length, count, inverse), back));
  }
  node.output(node.transpose(transform(node, x, length.value(),
                                       {{"count", count.value()},
                                        {"complex", std::int64_t{complex}},
                                        {"half", std::int64_t{half}},
                                        {"inverse", std::int64_t{inverse}}}),
                             back));
}

/// [batch, length, 1 or 2] or, for real numbers, [batch, length] -> [batch, frames, frequencies,
/// 2].
void stft(NodeContext& node) {
  ValueId signal = node.x();
  if (node.rank(signal) == 2)
    signal = node.reshape(signal, {node.shape(signal)[0], node.shape(signal)[1], Dim(1)});
  check_parts(node, signal);
  if (node.rank(signal) != 3)
    node.invalid("signal must be [batch, length] or [batch, length, 1 or 2], but is {}",
                 node.type(signal));
  const std::int64_t step = constant_size(node, node.size(1, "frame_step"), "frame_step");
  std::optional<ValueId> window;
  if (node.has_input(2)) window = node.input(2, "window");
  std::int64_t length = 0;
  if (node.has_input(3))
    length = constant_size(node, node.size(3, "frame_length"), "frame_length");
  else if (window && node.rank(*window) == 1)
    length = constant_size(node, node.shape(*window)[0], "the window's length");
  else
    length = constant_size(node, node.shape(signal)[1], "the signal's length");
  if (step < 1 || length < 1) node.invalid("frame_step is {}, frame_length {}", step, length);
  const bool onesided = node.attr_int("onesided", 1) != 0;
  const bool complex = node.shape(signal)[2] == Dim(2);
  if (!complex) signal = node.reshape(signal, {node.shape(signal)[0], node.shape(signal)[1]});
  node.output(transform(node, signal, length,
                        {{"count", onesided ? length / 2 + 1 : length},
                         {"complex", std::int64_t{complex}},
                         {"step", step}},
                        window));
}

/// Triangular filters on the mel scale, by the ONNX operator specification.
void mel_weight_matrix(NodeContext& node) {
  const std::int64_t bins = ir::double_to_int(DType::kInt64, node.scalar(0, "num_mel_bins"));
  const std::int64_t length = ir::double_to_int(DType::kInt64, node.scalar(1, "dft_length"));
  const double rate = node.scalar(2, "sample_rate");
  const double low = node.scalar(3, "lower_edge_hertz"), high = node.scalar(4, "upper_edge_hertz");
  const DType dtype =
      require_dtype(static_cast<int>(node.attr_int("output_datatype", 1)), "the result");
  // The mel scale's logarithm is defined above -700 Hz.
  const auto is_edge = [](double hertz) { return hertz > -700 && hertz < 1e12; };
  if (bins < 1 || length < 1 || bins > 65536 || length > 1 << 24 || !(rate >= 1e-3) ||
      !is_edge(low) || !is_edge(high))
    node.invalid("{} mel bins from {} to {} Hz of a transform of length {} at a rate of {}", bins,
                 low, high, length, rate);
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double mel_step = (to_mel(high) - to_mel(low)) / static_cast<double>(bins + 2);
  const std::int64_t rows = length / 2 + 1;
  const auto edge = [&](std::int64_t i) {
    const double mel = static_cast<double>(i) * mel_step + to_mel(low);
    const double hertz = 700 * (std::pow(10, mel / 2595) - 1);
    return static_cast<std::int64_t>(std::floor(static_cast<double>(length + 1) * hertz / rate));
  };
  const auto weight = [&](std::int64_t row, std::int64_t bin) -> double {
    const std::int64_t lower = edge(bin), centre = edge(bin + 1), upper = edge(bin + 2);
    if (row >= centre && row < upper)
      return static_cast<double>(upper - row) / static_cast<double>(upper - centre);
    if (row == centre) return 1;
    if (row >= lower && row < centre)
      return static_cast<double>(row - lower) / static_cast<double>(centre - lower);
    return 0;
  };
  node.output(matrix(node, dtype, rows, bins, weight).value());
}

}  // namespace

const OpRows kSignalOps = {
    {"HannWindow", 17, hann_window, "output_datatype periodic"},
    {"HammingWindow", 17, hamming_window, "output_datatype periodic"},
    {"BlackmanWindow", 17, blackman_window, "output_datatype periodic"},
    {"DFT", 17, dft, "axis:-19 inverse onesided"},
    {"STFT", 17, stft, "onesided"},
    {"MelWeightMatrix", 17, mel_weight_matrix, "output_datatype"},
};

}  // namespace sinter::frontend
