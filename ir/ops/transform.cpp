// SPDX-License-Identifier: Apache-2.0
// Dft(x, roots, window?) {length, count, step, complex, half, inverse} -> y
//
//   x       [.., n], or [.., n, 2] with complex = 1: rows of n numbers, taken as `length` long
//           (zeros follow, or the rest is left out)
//   roots   f32 [length, 2]: roots_of_unity(), which kernels read
//   window  [length]: factors of a row's elements
//   y       [.., count, 2]: the first `count` frequencies
//
// With step > 0 each row is a signal, whose frames of `length`, `step` apart, are transformed:
// y [.., frames, count, 2]. With half = 1 x has the first frequencies of a real signal, whose
// others are their conjugates, and y is that signal, [.., length, 1]. The inverse divides by the
// length. Without a kernel it is a matmul with the matrix of roots.
#include <array>
#include <cmath>
#include <complex>
#include <numbers>

#include "ir/constants/fourier.h"
#include "ir/graph.h"
#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"
#include "ir/reference/windows.h"

namespace sinter::ir::ops {
namespace {

using Complex = std::complex<double>;

std::vector<TensorType> infer_dft(const Attrs& attrs, Types inputs) {
  const Dft t(attrs);
  require_float(inputs);
  Shape shape = inputs[0].shape;
  const std::size_t parts = t.complex ? 2 : 1;
  if (shape.size() < parts || (t.complex && shape.back() != Dim(2)))
    invalid("needs rows of numbers, complex ones in pairs, found " + list_types(inputs));
  if (t.length < 1 || t.count < 1 || t.count > t.length || t.step < 0 || (t.half && t.step > 0))
    invalid("its length, count and step do not fit each other");
  if (inputs[1] != TensorType{DType::kFloat32, {Dim(t.length), Dim(2)}} ||
      (inputs.size() > 2 && inputs[2] != TensorType{inputs[0].dtype, {Dim(t.length)}}))
    invalid("its roots and window have the transform's length, found " + list_types(inputs));
  if (t.complex) shape.pop_back();
  const Dim n = shape.back();
  shape.pop_back();
  if (t.step > 0) shape.push_back(window_counts({{t.length}, {t.step}, {1}, {0}, {0}}, {&n, 1})[0]);
  shape.emplace_back(t.half ? t.length : t.count);
  shape.emplace_back(t.half ? 1 : 2);
  return {{inputs[0].dtype, shape}};
}

/// exp(-sign * 2 pi i k / n), exactly where it is real or imaginary.
Complex root(std::size_t k, std::size_t n, double sign) {
  const std::array<Complex, 4> quarters = {{{1, 0}, {0, -sign}, {-1, 0}, {0, sign}}};
  if (4 * k % n == 0) return quarters[4 * k / n];
  return std::polar(1.0,
                    -sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
}

/// The transform of `x`: those of its parts by the least prime factor, joined.
std::vector<Complex> transformed(const std::vector<Complex>& x, double sign) {
  const std::size_t n = x.size();
  std::size_t prime = 2;
  while (prime * prime <= n && n % prime != 0) ++prime;
  if (n < 2) return x;
  if (n % prime != 0) prime = n;
  const std::size_t part = n / prime;
  std::vector<std::vector<Complex>> parts;
  for (std::size_t p = 0; p < prime; ++p) {
    std::vector<Complex> own(part);
    for (std::size_t i = 0; i < part; ++i) own[i] = x[i * prime + p];
    parts.push_back(part > 1 ? transformed(own, sign) : own);
  }
  std::vector<Complex> result(n);
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t p = 0; p < prime; ++p)
      result[k] += parts[p][k % part] * root(p * k % n, n, sign);
  return result;
}

std::vector<Tensor> evaluate_dft(const Attrs& attrs, Tensors inputs, Types outputs) {
  const Dft t(attrs);
  const Tensor& x = inputs[0];
  const std::int64_t parts = t.complex ? 2 : 1;
  const std::int64_t n = x.shape()[x.shape().size() - static_cast<std::size_t>(parts)];
  const std::vector<std::int64_t> shape = reference::concrete_shape(outputs[0].shape);
  const std::int64_t frames = t.step > 0 ? shape[shape.size() - 3] : 1;
  const std::int64_t rows = n == 0 ? 0 : x.element_count() / (n * parts);
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows * frames; ++row) {
    const std::int64_t first = row / frames * n + row % frames * t.step;
    std::vector<Complex> signal(static_cast<std::size_t>(t.length));
    const auto at = [&](std::int64_t i) {
      return Complex(x.at((first + i) * parts), t.complex ? x.at((first + i) * 2 + 1) : 0);
    };
    for (std::int64_t i = 0; i < t.length; ++i) {
      auto& element = signal[static_cast<std::size_t>(i)];
      const std::int64_t mirrored = t.length - i;
      if (t.half && i > t.length / 2) {
        if (mirrored < n) element = std::conj(at(mirrored));
        continue;
      }
      if (t.step > 0 || i < n) element = at(i);
      // These are real of a real signal.
      if (t.half && (i == 0 || 2 * i == t.length)) element = element.real();
      if (inputs.size() > 2) element *= inputs[2].at(i);
    }
    const std::vector<Complex> result = transformed(signal, t.inverse ? -1 : 1);
    const double scale = t.inverse ? 1 / static_cast<double>(t.length) : 1;
    for (std::int64_t k = 0; k < (t.half ? t.length : t.count); ++k) {
      const Complex& element = result[static_cast<std::size_t>(k)];
      values.push_back(element.real() * scale);
      if (!t.half) values.push_back(element.imag() * scale);
    }
  }
  return {Tensor::from_doubles(outputs[0].dtype, shape, values)};
}

// ---- as a matmul

class AsMatmul {
 public:
  AsMatmul(GraphBuilder& builder, const Node& node, std::span<const ValueId> inputs)
      : b_(builder), t_(node.attrs), inputs_(inputs), dtype_(builder.type(inputs[0]).dtype) {}

  ValueId result() {
    lead_ = b_.type(inputs_[0]).shape;
    if (t_.complex) lead_.pop_back();
    lead_.pop_back();
    const std::int64_t factor = t_.half || t_.step > 0 ? 1 : factor_of(t_.length);
    const bool is_whole = t_.complex && inputs_.size() == 2 &&
                          b_.type(inputs_[0]).shape[lead_.size()] == Dim(t_.length);
    if (factor > 1 && is_whole) return in_two_steps(inputs_[0], factor);
    const ValueId real = rows(0);
    ValueId imaginary;
    if (t_.complex) imaginary = rows(1);
    if (factor > 1) return in_two_steps(t_.complex ? joined(real, imaginary) : real, factor);
    if (t_.half) return signal_of_half(real, imaginary);
    const double sign = t_.inverse ? -1 : 1;
    const ValueId cosine =
        matrix(t_.length, t_.count, [&](double angle) { return std::cos(angle); });
    const ValueId sine =
        matrix(t_.length, t_.count, [&](double angle) { return sign * std::sin(angle); });
    const ValueId minus = b_.scalar(dtype_, -1);
    if (!t_.complex)
      return joined(product(real, cosine), b_.add("Mul", {product(real, sine), minus}));
    return joined(b_.add("Add", {product(real, cosine), product(imaginary, sine)}),
                  b_.add("Sub", {product(imaginary, cosine), product(real, sine)}));
  }

 private:
  /// The largest factor up to the root of a long transform's length; 1 where two steps do not pay.
  static std::int64_t factor_of(std::int64_t length) {
    constexpr std::int64_t kLong = 256, kLeastFactor = 8;
    std::int64_t factor = 1;
    for (std::int64_t f = kLeastFactor; length >= kLong && f * f <= length; ++f)
      if (length % f == 0) factor = f;
    return factor;
  }

  /// Transforms of A and of B elements instead of one of A B (Cooley and Tukey): element n1 B + n2
  /// contributes to frequency k1 + A k2. Takes 2 (A + B) multiplications an element, not 2 A B.
  ValueId in_two_steps(ValueId x, std::int64_t a) {
    const std::int64_t b = t_.length / a, parts = t_.complex ? 2 : 1;
    const Dim rows = element_count(lead_);
    // Over n1: cosines, then sines.
    const auto angle = [](std::int64_t i, std::int64_t k, std::int64_t n) {
      return 2 * std::numbers::pi * static_cast<double>(i * k % n) / static_cast<double>(n);
    };
    const double sign = t_.inverse ? -1 : 1;
    std::vector<double> first;
    for (const bool is_sine : {false, true})
      for (std::int64_t k = 0; k < a; ++k)
        for (std::int64_t n = 0; n < a; ++n)
          first.push_back(is_sine ? sign * std::sin(angle(n, k, a)) : std::cos(angle(n, k, a)));
    const ValueId both =
        b_.add("MatMul", {b_.constant(Tensor::from_doubles(dtype_, {2 * a, a}, first)),
                          reshape(x, {rows, Dim(a), Dim(b * parts)})});
    const Shape half{rows, Dim(a), Dim(b * parts)}, numbers{rows, Dim(a), Dim(b), Dim(parts)},
        one{rows, Dim(a), Dim(b), Dim(1)};
    const ValueId cosines = reshape(slice(both, {Dim(0), Dim(0), Dim(0)}, half), numbers),
                  sines = reshape(slice(both, {Dim(0), Dim(a), Dim(0)}, half), numbers);
    const auto part = [&](ValueId value, std::int64_t i) {
      return parts == 1 ? value : slice(value, {Dim(0), Dim(0), Dim(0), Dim(i)}, one);
    };
    const auto calculated = [&](const char* op, ValueId p, ValueId q) {
      return b_.add(op, {p, q});
    };
    ValueId real = part(cosines, 0), imaginary = b_.add("Neg", {part(sines, 0)});
    if (t_.complex) {
      real = calculated("Add", real, part(sines, 1));
      imaginary = calculated("Sub", part(cosines, 1), part(sines, 0));
    }
    // By the roots of the whole length.
    std::vector<double> cosine, sine;
    for (std::int64_t k = 0; k < a; ++k)
      for (std::int64_t n = 0; n < b; ++n) {
        cosine.push_back(std::cos(angle(n, k, t_.length)));
        sine.push_back(sign * std::sin(angle(n, k, t_.length)));
      }
    const ValueId c = b_.constant(Tensor::from_doubles(dtype_, {a, b, 1}, cosine)),
                  s = b_.constant(Tensor::from_doubles(dtype_, {a, b, 1}, sine));
    const ValueId turned_real = calculated("Add", calculated("Mul", real, c),
                                           calculated("Mul", imaginary, s)),
                  turned_imaginary = calculated("Sub", calculated("Mul", imaginary, c),
                                                calculated("Mul", real, s));
    const ValueId turned =
        b_.add("Concat", {turned_real, turned_imaginary}, {{"axis", std::int64_t{3}}});
    // Over n2, real and imaginary parts side by side.
    const double scale = t_.inverse ? 1.0 / static_cast<double>(t_.length) : 1.0;
    std::vector<double> second;
    for (std::int64_t n = 0; n < b; ++n)
      for (const bool is_imaginary : {false, true})
        for (std::int64_t k = 0; k < b; ++k) {
          const double cos = scale * std::cos(angle(n, k, b)),
                       sin = scale * sign * std::sin(angle(n, k, b));
          second.push_back(is_imaginary ? sin : cos);
          second.push_back(is_imaginary ? cos : -sin);
        }
    const ValueId product =
        b_.add("MatMul", {reshape(turned, {rows * Dim(a), Dim(2 * b)}),
                          b_.constant(Tensor::from_doubles(dtype_, {2 * b, 2 * b}, second))});
    const ValueId ordered = b_.add("Transpose", {reshape(product, {rows, Dim(a), Dim(b), Dim(2)})},
                                   {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
    Shape shape = lead_;
    shape.insert(shape.end(), {Dim(t_.length), Dim(2)});
    const ValueId whole = reshape(ordered, shape);
    if (t_.count == t_.length) return whole;
    shape[lead_.size()] = t_.count;
    return slice(whole, std::vector<Dim>(shape.size(), Dim(0)), shape);
  }

  ValueId reshape(ValueId value, const Shape& shape) {
    return b_.type(value).shape == shape ? value : b_.add("Reshape", {value}, {{"shape", shape}});
  }
  ValueId slice(ValueId value, std::vector<Dim> starts, const Shape& shape) {
    const std::vector<std::int64_t> steps(shape.size(), 1);
    return b_.add("Slice", {value},
                  {{"starts", std::move(starts)}, {"steps", steps}, {"shape", shape}});
  }

  /// One part of the rows of the transform: [.., length].
  ValueId rows(std::int64_t part) {
    ValueId x = inputs_[0];
    Shape shape = b_.type(x).shape;
    if (t_.complex) {
      std::vector<Dim> starts(shape.size(), Dim(0));
      starts.back() = part;
      shape.back() = 1;
      x = slice(x, std::move(starts), shape);
      shape.pop_back();
      x = reshape(x, shape);
    }
    x = t_.step > 0 ? frames(x) : first_elements(x, t_.half ? t_.length / 2 + 1 : t_.length);
    return inputs_.size() > 2 ? b_.add("Mul", {x, inputs_[2]}) : x;
  }

  /// [.., n] -> [.., frames, length].
  ValueId frames(ValueId x) {
    const Shape shape = b_.type(x).shape;
    const Dim n = shape.back(), count = element_count(Shape(shape.begin(), shape.end() - 1));
    const auto one = [](std::int64_t value) { return std::vector<std::int64_t>{value}; };
    const ValueId unfolded = b_.add("Unfold", {reshape(x, {count, Dim(1), n})},
                                    {{"kernel", one(t_.length)},
                                     {"strides", one(t_.step)},
                                     {"dilations", one(1)},
                                     {"pads_begin", one(0)},
                                     {"pads_end", one(0)}});
    const Dim each = b_.type(unfolded).shape.back();
    const ValueId turned = b_.add("Transpose", {reshape(unfolded, {count, Dim(t_.length), each})},
                                  {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
    lead_ = Shape(shape.begin(), shape.end() - 1);
    lead_.push_back(each);
    Shape result = lead_;
    result.emplace_back(t_.length);
    return reshape(turned, result);
  }

  ValueId first_elements(ValueId x, std::int64_t count) {
    Shape shape = b_.type(x).shape;
    if (shape.back() == Dim(count)) return x;
    std::vector<Dim> begins(shape.size(), Dim(0)), ends = begins;
    if (shape.back().value() < count) {
      ends.back() = Dim(count) - shape.back();
      return b_.add("Pad", {x}, {{"begins", begins}, {"ends", ends}, {"fill", 0.0}});
    }
    shape.back() = count;
    return slice(x, std::move(begins), shape);
  }

  /// f(2 pi r c / length) of rows r and columns c, divided by the length for an inverse.
  template <typename F>
  ValueId matrix(std::int64_t rows, std::int64_t columns, F f) {
    const double scale = t_.inverse ? 1.0 / static_cast<double>(t_.length) : 1.0;
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(rows * columns));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        const double weight = !t_.half || r == 0 || 2 * r == t_.length ? scale : 2 * scale;
        values.push_back(weight * f(2 * std::numbers::pi * static_cast<double>(r * c % t_.length) /
                                    static_cast<double>(t_.length)));
      }
    return b_.constant(Tensor::from_doubles(dtype_, {rows, columns}, values));
  }

  ValueId product(ValueId x, ValueId matrix) {
    const Shape columns = b_.type(matrix).shape;
    const ValueId flat = b_.add("MatMul", {reshape(x, {element_count(lead_), columns[0]}), matrix});
    Shape shape = lead_;
    shape.push_back(columns[1]);
    return reshape(flat, shape);
  }

  ValueId joined(ValueId real, ValueId imaginary) {
    Shape shape = b_.type(real).shape;
    shape.emplace_back(1);
    const auto axis = static_cast<std::int64_t>(shape.size()) - 1;
    return b_.add("Concat", {reshape(real, shape), reshape(imaginary, shape)}, {{"axis", axis}});
  }

  /// The real signal: its frequencies that are left out are the conjugates of these.
  ValueId signal_of_half(ValueId real, ValueId imaginary) {
    const std::int64_t n = t_.length / 2 + 1;
    ValueId signal =
        product(real, matrix(n, t_.length, [](double angle) { return std::cos(angle); }));
    if (t_.complex)
      signal = b_.add("Add", {signal, product(imaginary, matrix(n, t_.length, [](double angle) {
                                                return -std::sin(angle);
                                              }))});
    Shape shape = b_.type(signal).shape;
    shape.emplace_back(1);
    return reshape(signal, shape);
  }

  GraphBuilder& b_;
  const Dft t_;
  const std::span<const ValueId> inputs_;
  const DType dtype_;
  Shape lead_;  // of the result: before the transformed dimension
};

}  // namespace

std::vector<OpDef> transform_ops() {
  const auto flag = [](const char* name) {
    return AttrSpec{name, AttrKind::kInt, Attr(std::int64_t{0})};
  };
  OpDef dft;
  dft.name = "Dft";
  dft.kind = OpKind::kLibrary;
  dft.kernel = "transform";
  dft.min_inputs = 2;
  dft.max_inputs = 3;
  dft.attrs = {{"length", AttrKind::kInt, std::nullopt},
               {"count", AttrKind::kInt, std::nullopt},
               flag("step"),
               flag("complex"),
               flag("half"),
               flag("inverse")};
  dft.infer = infer_dft;
  dft.evaluate = evaluate_dft;
  dft.detail = CompositeDef{[](GraphBuilder& builder, const Node& node,
                               std::span<const ValueId> inputs) -> std::vector<ValueId> {
    return {AsMatmul(builder, node, inputs).result()};
  }};
  // Sums of a whole signal exceed float16, and its roots need more of a number.
  dft.numerics.own_types = true;
  return {dft};
}

}  // namespace sinter::ir::ops
