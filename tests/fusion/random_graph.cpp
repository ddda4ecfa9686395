// SPDX-License-Identifier: Apache-2.0
#include "random_graph.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

namespace sinter::fusion::test {
namespace {

using ir::Dim;
using ir::Shape;
using ir::ValueId;
using Ints = std::vector<std::int64_t>;

constexpr DType kType = DType::kFloat64;

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed), builder_("random") {}

  ir::Graph run(int nodes) {
    const Dim n = Dim::symbol("n");
    builder_.range("n", {1, 16, nullptr});
    pool_ = {builder_.input("x", {kType, {n, 4, 6}}),
             builder_.input("y", {kType, {n, 4, 6}}),
             builder_.input("z", {kType, {n, 1, 6}}),
             builder_.input("v", {kType, {6}}),
             constant({4, 6}),
             builder_.scalar(kType, 0.5)};
    ids_ = builder_.input("ids", {DType::kInt64, {n, 4}});
    for (int i = 0; i < nodes; ++i) step();
    // The last value, and now and then others: what several read must then be stored as well.
    builder_.output("last", pool_.back());
    for (std::size_t i = 6; i + 1 < pool_.size(); ++i)
      if (below(8) == 0) builder_.output("value" + std::to_string(i), pool_[i]);
    return builder_.finish();
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  ValueId pick() {
    // Mostly recent values: deep graphs rather than flat ones.
    const std::size_t recent = std::min<std::size_t>(pool_.size(), 4);
    return below(3) != 0 ? pool_[pool_.size() - 1 - below(recent)] : pool_[below(pool_.size())];
  }
  const Shape& shape(ValueId value) { return builder_.type(value).shape; }

  ValueId constant(Ints dims) {
    std::int64_t count = 1;
    for (std::int64_t dim : dims) count *= dim;
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = static_cast<double>(below(2001)) / 1000.0 - 1.0;
    return builder_.constant(ir::Tensor::from_doubles(kType, std::move(dims), values));
  }

  void add(std::string_view op, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    ValueId value = builder_.add(op, std::move(inputs), std::move(attrs));
    pool_.push_back(value);
  }

  void step() {
    switch (below(20)) {
      case 0:
      case 1:
      case 2: return unary();
      case 3:
      case 4:
      case 5: return binary();
      case 6: return select();
      case 7: return reduce();
      case 8: return transpose();
      case 9: return reshape();
      case 10: return slice_or_concat();
      case 11: return product();
      case 12: return gather();
      case 13: return take_or_scatter();
      case 14: return convolution();
      case 15: return pooling();
      case 16: return scan();
      case 17: return rank();
      case 18: return quantized_product();
      default: return composite();
    }
  }

  void unary() {
    // Bounded, so that long chains stay within range.
    constexpr std::array<std::string_view, 8> ops = {"Tanh", "Sigmoid", "Relu", "Sin",
                                                     "Neg",  "Abs",     "Gelu", "Erf"};
    add(ops[below(ops.size())], {pick()});
  }

  /// Another value that broadcasts with `a`, or `a`.
  ValueId partner(ValueId a) {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const ValueId b = pick();
      const Shape &x = shape(a), &y = shape(b);
      bool fits = true;
      for (std::size_t i = 1; fits && i <= std::min(x.size(), y.size()); ++i) {
        const Dim &p = x[x.size() - i], &q = y[y.size() - i];
        fits = p == q || p == Dim(1) || q == Dim(1);
      }
      if (fits) return b;
    }
    return a;
  }

  void binary() {
    constexpr std::array<std::string_view, 5> ops = {"Add", "Sub", "Mul", "Max", "Min"};
    const ValueId a = pick();
    add(ops[below(ops.size())], {a, partner(a)});
    if (below(3) == 0) add("Tanh", {pool_.back()});
  }

  /// Windows over what stands behind batch and channels, if its sizes are known.
  ir::Attrs windows(const Shape& x, std::int64_t kernel) {
    const std::size_t spatial = x.size() - 2;
    Ints strides, pads, dilations(spatial, 1);
    for (std::size_t d = 0; d < spatial; ++d) {
      strides.push_back(below(3) == 0 ? 2 : 1);
      pads.push_back(kernel == 1 ? 0 : 1);
    }
    return {
        {"strides", strides}, {"dilations", dilations}, {"pads_begin", pads}, {"pads_end", pads}};
  }
  bool has_windows(ValueId value) {
    const Shape& x = shape(value);
    return x.size() > 2 && x.size() < 5 &&
           std::all_of(x.begin() + 1, x.end(), [](const Dim& dim) { return dim.is_constant(); });
  }

  void convolution() {
    const ValueId a = pick();
    if (!has_windows(a)) return;
    const Shape x = shape(a);
    const std::int64_t channels = x[1].value(), kernel = below(2) == 0 ? 1 : 3;
    const std::int64_t group = below(3) == 0                        ? channels
                               : channels % 2 == 0 && below(3) == 0 ? 2
                                                                    : 1;
    const std::int64_t outputs = group * static_cast<std::int64_t>(1 + below(3));
    Ints weights{outputs, channels / group};
    weights.resize(x.size(), kernel);
    ir::Attrs attrs = windows(x, kernel);
    attrs.set("group", group);
    std::vector<ValueId> inputs{a, constant(weights)};
    if (below(2) == 0) inputs.push_back(constant({outputs}));
    add("Conv", std::move(inputs), attrs);
    Ints per_channel(x.size() - 1, 1);
    per_channel[0] = outputs;
    if (below(2) == 0) add("Mul", {pool_.back(), constant(per_channel)});
    if (below(2) == 0) add("Sub", {constant(per_channel), pool_.back()});
    add("Tanh", {pool_.back()});
  }

  void pooling() {
    const ValueId a = pick();
    if (!has_windows(a)) return;
    const Shape x = shape(a);
    ir::Attrs attrs = windows(x, 3);
    attrs.set("kernel", Ints(x.size() - 2, 3));
    Ints axes(x.size() - 2);
    std::iota(axes.begin(), axes.end(), 2);
    const ValueId unfolded = builder_.add("Unfold", {a}, attrs);
    add("ReduceMax", {unfolded}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
  }

  void select() {
    const ValueId a = pick();
    const ValueId test = builder_.add("Greater", {a, builder_.scalar(kType, 0)});
    add("Where", {test, a, partner(a)});
  }

  void reduce() {
    constexpr std::array<std::string_view, 4> ops = {"ReduceSum", "ReduceMean", "ReduceMax",
                                                     "ReduceSumSquare"};
    const ValueId a = pick();
    if (shape(a).empty()) return;
    Ints axes{static_cast<std::int64_t>(below(shape(a).size()))};
    if (below(4) == 0 && shape(a).size() > 1) {
      axes.resize(shape(a).size());
      std::iota(axes.begin(), axes.end(), 0);
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(below(axes.size())));
    }
    add(ops[below(ops.size())], {a},
        {{"axes", axes}, {"keepdims", static_cast<std::int64_t>(below(3) != 0)}});
    if (below(2) == 0) add("Sub", {pool_.back(), partner(pool_.back())});
  }

  void transpose() {
    const ValueId a = pick();
    Ints perm(shape(a).size());
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), random_);
    if (perm.size() > 1) add("Transpose", {a}, {{"perm", perm}});
  }

  void reshape() {
    const ValueId a = pick();
    Shape to = shape(a);
    const std::size_t at = to.empty() ? 0 : below(to.size());
    const auto here = to.begin() + static_cast<std::ptrdiff_t>(at);
    if (!to.empty() && to[at] == Dim(6) && below(2) == 0) {
      to[at] = Dim(3);
      to.insert(here, Dim(2));
    } else if (at + 1 < to.size()) {
      to[at] = to[at] * to[at + 1];
      to.erase(here + 1);
    } else if (to.size() < 5) {
      to.insert(here, Dim(1));
    }
    add("Reshape", {a}, {{"shape", to}});
  }

  void slice_or_concat() {
    const ValueId a = pick();
    const Shape from = shape(a);
    if (from.empty()) return;
    const std::size_t axis = below(from.size());
    if (below(2) == 0) {
      const ValueId b = below(2) == 0 ? a : builder_.add("Tanh", {a});
      add("Concat", {a, b}, {{"axis", static_cast<std::int64_t>(axis)}});
      return;
    }
    if (!from[axis].is_constant() || from[axis].value() < 2) return;
    Shape starts(from.size(), Dim(0)), to = from;
    Ints steps(from.size(), 1);
    if (below(2) == 0) {
      starts[axis] = Dim(1);
      to[axis] = from[axis] - Dim(1);
    } else {
      starts[axis] = from[axis] - Dim(1);
      steps[axis] = -1;
    }
    add("Slice", {a}, {{"starts", starts}, {"steps", steps}, {"shape", to}});
  }

  void scan() {
    const ValueId a = pick();
    if (shape(a).empty()) return;
    constexpr std::array<const char*, 4> combines = {"sum", "prod", "max", "min"};
    const std::size_t combine = below(combines.size());
    add("Scan", {a},
        {{"axis", static_cast<std::int64_t>(below(shape(a).size()))},
         {"combine", std::string(combines[combine])},
         {"exclusive", static_cast<std::int64_t>(combine < 2 ? below(2) : 0)},
         {"reverse", static_cast<std::int64_t>(below(2))}});
    add("Tanh", {pool_.back()});
  }

  /// Values in order: which of two that are nearly equal comes first makes no difference.
  void rank() {
    const ValueId a = pick();
    const Shape from = shape(a);
    if (from.empty()) return;
    const std::size_t axis = below(from.size());
    const ValueId order = builder_.add("ArgSort", {a},
                                       {{"axis", static_cast<std::int64_t>(axis)},
                                        {"count", Shape{from[axis]}},
                                        {"descending", static_cast<std::int64_t>(below(2))}});
    std::vector<ValueId> inputs = {a};
    for (std::size_t d = 0; d < from.size(); ++d) {
      Shape along(from.size(), Dim(1));
      along[d] = from[d];
      inputs.push_back(
          d == axis ? order
                    : builder_.add("Iota", {},
                                   {{"shape", along}, {"axis", static_cast<std::int64_t>(d)}}));
    }
    add("Take", inputs);
  }

  void product() {
    const ValueId a = pick();
    const Shape from = shape(a);
    if (from.size() < 2 || !from.back().is_constant()) return;
    const std::int64_t columns = below(2) == 0 ? 6 : 4;
    if (below(3) == 0) {
      Ints perm(from.size());
      std::iota(perm.begin(), perm.end(), 0);
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      add("MatMul", {a, builder_.add("Transpose", {a}, {{"perm", perm}})});
    } else {
      add("MatMul", {a, constant({from.back().value(), columns})});
      if (below(2) == 0) add("Add", {pool_.back(), constant({columns})});
      if (below(3) == 0) add("Mul", {pool_.back(), builder_.scalar(kType, 0.25)});
      if (below(3) == 0) add("Add", {pool_.back(), partner(pool_.back())});
    }
    add(below(2) == 0 ? "Tanh" : "Relu", {pool_.back()});
  }

  /// A product of an input, quantized to 8 bits, and of such constants, as exact sums of
  /// differences from zero points.
  void quantized_product() {
    const bool is_signed = below(2) == 0;
    const auto cast = [&](ValueId value, DType to) {
      return builder_.add("Cast", {value}, {{"to", to}});
    };
    const auto less = [&](ValueId integers, std::int64_t zero) {
      const ValueId wide = cast(integers, DType::kInt32);
      return zero == 0
                 ? wide
                 : builder_.add("Sub",
                                {wide, builder_.scalar(DType::kInt32, static_cast<double>(zero))});
    };
    const std::int64_t zero = below(2) == 0 ? 0 : is_signed ? -3 : 128;
    const ValueId steps =
        builder_.add("Round", {builder_.add("Mul", {pool_[below(2)], builder_.scalar(kType, 32)})});
    const ValueId x =
        cast(builder_.add("Add", {steps, builder_.scalar(kType, static_cast<double>(zero))}),
             is_signed ? DType::kInt8 : DType::kUInt8);
    const std::int64_t rows = 6, columns = below(2) == 0 ? 6 : 4;
    const bool signed_weights = below(2) == 0;
    std::vector<std::int64_t> integers(static_cast<std::size_t>(rows * columns));
    for (std::int64_t& integer : integers)
      integer = static_cast<std::int64_t>(below(256)) - (signed_weights ? 128 : 0);
    const ValueId weights = builder_.constant(ir::Tensor::from_ints(
        signed_weights ? DType::kInt8 : DType::kUInt8, {rows, columns}, integers));
    const ValueId sums =
        builder_.add("MatMul", {less(x, zero), less(weights, signed_weights ? 0 : 17)});
    add("Mul", {cast(sums, kType), builder_.scalar(kType, 1e-4)});
    add("Tanh", {pool_.back()});
  }

  void gather() {
    const ValueId a = pick();
    if (shape(a).empty() || !shape(a)[0].is_constant() || shape(a)[0].value() < 2 ||
        shape(a).size() > 2)
      return;
    add("Gather", {a, ids_}, {{"axis", std::int64_t{0}}});
  }

  /// Moves elements one further along a dimension, round the end, or changes those there.
  void take_or_scatter() {
    const ValueId a = pick();
    const Shape from = shape(a);
    if (from.empty()) return;
    const std::size_t axis = below(from.size());
    if (!from[axis].is_constant()) return;
    std::vector<ValueId> places;
    for (std::size_t d = 0; d < from.size(); ++d) {
      Shape along(from.size(), Dim(1));
      along[d] = from[d];
      ValueId place =
          builder_.add("Iota", {}, {{"shape", along}, {"axis", static_cast<std::int64_t>(d)}});
      if (d == axis) {
        const DType type = DType::kInt64;
        place = builder_.add("Add", {place, builder_.scalar(type, 1)});
        const auto extent = static_cast<double>(from[axis].value());
        place = builder_.add("Mod", {place, builder_.scalar(type, extent)});
      }
      places.push_back(place);
    }
    const bool takes = below(2) == 0;
    std::vector<ValueId> inputs = {a};
    if (!takes) inputs.push_back(builder_.add("Tanh", {a}));
    inputs.insert(inputs.end(), places.begin(), places.end());
    constexpr std::array<const char*, 3> combines = {"none", "sum", "max"};
    if (takes)
      add("Take", inputs);
    else
      add("Scatter", inputs, {{"combine", std::string(combines[below(combines.size())])}});
  }

  void composite() {
    const ValueId a = pick();
    if (shape(a).empty() || !shape(a).back().is_constant()) return;
    const auto axis = static_cast<std::int64_t>(shape(a).size() - 1);
    if (below(2) == 0)
      add("Softmax", {a}, {{"axis", axis}});
    else
      add("LayerNorm", {a, constant({shape(a).back().value()})},
          {{"axis", axis}, {"epsilon", 1e-3}});
  }

  std::mt19937_64 random_;
  ir::GraphBuilder builder_;
  std::vector<ValueId> pool_;
  ValueId ids_;
};

}  // namespace

ir::Graph random_graph(std::uint64_t seed, int nodes) { return Generator(seed).run(nodes); }

}  // namespace sinter::fusion::test
