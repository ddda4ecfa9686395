// SPDX-License-Identifier: Apache-2.0
// Operators of ai.onnx.ml that prepare columns: scaling, encoding, imputing, selecting.
#include <algorithm>
#include <cmath>

#include "frontend/ops/ml/scores.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

/// One number for all columns, or one per column, broadcast along the leading dimensions of `x`.
Term per_column(const Term& x, const std::vector<double>& values, DType dtype,
                std::string_view what) {
  NodeContext& node = x.node();
  const Dim columns = x.shape().empty() ? Dim(1) : x.shape().back();
  if (values.size() != 1 && Dim(std::ssize(values)) != columns)
    node.invalid("it has {} numbers of '{}', but X has {} columns", values.size(), what, columns);
  return {node,
          node.builder().constant(ir::Tensor::from_doubles(dtype, {std::ssize(values)}, values))};
}

void scaler(NodeContext& node) {
  const Term x = Term(node, node.input(0, "X")).cast(DType::kFloat32);
  const std::vector<double> offset = node.attr_floats("offset").value_or(std::vector{0.0}),
                            scale = node.attr_floats("scale").value_or(std::vector{1.0});
  node.output(((x - per_column(x, offset, DType::kFloat32, "offset")) *
               per_column(x, scale, DType::kFloat32, "scale"))
                  .value());
}

void normalizer(NodeContext& node) {
  const Term x = read_float_rows(node);
  const std::string norm = node.attr_string("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2")
    node.invalid("norm '{}' is none of MAX, L1 and L2", norm);
  Term size = norm == "MAX"  ? reduce("ReduceMax", x, 1, true)
              : norm == "L1" ? reduce("ReduceSum", abs(x), 1, true)
                             : reduce("ReduceSum", x.apply("Square"), 1, true).apply("Sqrt");
  size = select(size.with("Equal", 0), size.number(1), size);
  node.output((x / size).reshape(node.shape(node.input(0, "X"))).value());
}

void imputer(NodeContext& node) {
  const Term x(node, node.input(0, "X"));
  if (is_float(x.dtype())) {
    const auto values = node.attr_floats("imputed_value_floats");
    if (!values || values->empty()) node.invalid("attribute 'imputed_value_floats' is missing");
    const double replaced = node.attr_float("replaced_value_float", 0);
    const Term hit = std::isnan(replaced) ? x.apply("IsNan") : x.with("Equal", replaced);
    return node.output(
        select(hit, per_column(x, *values, x.dtype(), "imputed_value_floats"), x).value());
  }
  const auto values = node.attr_ints("imputed_value_int64s");
  if (!values || values->empty()) node.invalid("attribute 'imputed_value_int64s' is missing");
  const Term hit = x.with("Equal", static_cast<double>(node.attr_value("replaced_value_int64", 0)));
  const std::vector<double> numbers(values->begin(), values->end());
  node.output(select(hit, per_column(x, numbers, x.dtype(), "imputed_value_int64s"), x).value());
}

void binarizer(NodeContext& node) {
  const Term x(node, node.input(0, "X"));
  node.output(x.with("Greater", node.attr_float("threshold", 0)).cast(x.dtype()).value());
}

/// Concatenates the inputs' columns, each cut or zero-padded to the node's width.
void feature_vectorizer(NodeContext& node) {
  const auto widths = node.attr_ints("inputdimensions");
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    Term x = Term(node, node.input(i, "X")).cast(DType::kFloat32);
    if (x.shape().size() == 1) x = x.reshape({x.shape()[0], Dim(1)});
    if (x.shape().size() != 2)
      node.invalid("input {} must be [rows, columns], but is {}", i, node.type(x.value()));
    if (!widths) {
      parts.push_back(x.value());
      continue;
    }
    if (widths->size() != node.input_count())
      node.invalid("inputdimensions has {} elements for {} inputs", widths->size(),
                   node.input_count());
    const std::int64_t width = (*widths)[i];
    const Dim columns = x.shape()[1];
    if (!columns.is_constant() || width < 0)
      node.unsupported(
          "input {} has {} columns, of which {} are wanted: give the model's input a "
          "number (--dim)",
          i, columns, width);
    if (width < columns.value())
      parts.push_back(node.add("Slice", {x.value()},
                               {{"starts", std::vector<Dim>{Dim(0), Dim(0)}},
                                {"steps", Ints{1, 1}},
                                {"shape", std::vector<Dim>{x.shape()[0], Dim(width)}}}));
    else if (width > columns.value())
      parts.push_back(node.add(
          "Pad", {x.value()},
          {{"begins", Shape{0, 0}}, {"ends", Shape{Dim(0), Dim(width) - columns}}, {"fill", 0.0}}));
    else
      parts.push_back(x.value());
  }
  node.output(parts.size() == 1 ? parts[0] : node.concat(parts, 1));
}

void array_feature_extractor(NodeContext& node) {
  Term x(node, node.input(0, "X"));
  Term places(node, node.input(1, "Y"));
  if (x.shape().size() == 1) x = x.reshape({Dim(1), x.shape()[0]});
  if (x.shape().empty()) node.invalid("X has no columns: it is {}", node.type(x.value()));
  places = places.reshape({ir::element_count(places.shape())});
  const std::int64_t axis = std::ssize(x.shape()) - 1;
  node.check_indices(places.value(), x.shape().back());
  node.output(node.add("Gather", {x.value(), places.value()}, {{"axis", axis}}));
}

[[noreturn]] void refuse_strings(const NodeContext& node, std::string_view what) {
  node.unsupported(
      "its {} are strings, which no tensor here holds: encode the column before the model "
      "(pandas.factorize, sklearn's OrdinalEncoder), and export from its numbers on",
      what);
}

void one_hot_encoder(NodeContext& node) {
  const Term x(node, node.input(0, "X"));
  if (const auto names = node.attr_strings("cats_strings"); names && !names->empty())
    refuse_strings(node, "categories");
  const auto categories = node.attr_ints("cats_int64s");
  if (!categories || categories->empty()) node.invalid("attribute 'cats_int64s' is missing");
  if (node.attr_int("zeros", 1) == 0)
    node.warn("elements in none of its categories become zeros; nothing is reported when it runs");
  Shape shape = x.shape();
  shape.emplace_back(1);
  const Term table(node, node.builder().constant(ir::Tensor::from_ints(
                             DType::kInt64, {std::ssize(*categories)}, *categories)));
  const auto [least, most] = std::ranges::minmax(*categories);
  if (least > INT32_MIN && most < INT32_MAX) {
    // In 32 bits, which compare twice as fast. What has none of the categories equals none.
    const Term wide = x.cast(DType::kInt64);
    const Term low = wide.number(static_cast<double>(least) - 1),
               high = wide.number(static_cast<double>(most) + 1);
    const Term narrow = clamp(wide, low, high).cast(DType::kInt32).reshape(shape);
    node.output(narrow.with("Equal", table.cast(DType::kInt32)).cast(DType::kFloat32).value());
    return;
  }
  node.output(
      x.cast(DType::kInt64).reshape(shape).with("Equal", table).cast(DType::kFloat32).value());
}

/// Keys or values of a LabelEncoder.
std::optional<ir::Tensor> encoder_table(const NodeContext& node, const std::string& what) {
  if (const auto names = node.attr_strings(what + "_strings"); names && !names->empty())
    refuse_strings(node, what);
  if (const auto ints = node.attr_ints(what + "_int64s"); ints && !ints->empty())
    return ir::Tensor::from_ints(DType::kInt64, {std::ssize(*ints)}, *ints);
  if (const auto floats = node.attr_floats(what + "_floats"); floats && !floats->empty())
    return ir::Tensor::from_doubles(DType::kFloat32, {std::ssize(*floats)}, *floats);
  return node.attr_tensor(what + "_tensor");
}

/// `wanted` of `values`, in that order; the last is `other`.
ir::Tensor picked(const ir::Tensor& values, const std::vector<std::int64_t>& wanted, double other) {
  const std::int64_t count = std::ssize(wanted) + 1;
  const auto made = [&]<typename T>(const auto& element, const auto& from) {
    std::vector<T> all;
    for (const std::int64_t i : wanted)
      all.push_back(i < 0 ? static_cast<T>(other) : static_cast<T>(element(i)));
    all.push_back(static_cast<T>(other));
    return from(values.dtype(), {count}, all);
  };
  if (is_float(values.dtype()))
    return made.operator()<double>([&](std::int64_t i) { return values.at(i); },
                                   &ir::Tensor::from_doubles);
  return made.operator()<std::int64_t>([&](std::int64_t i) { return values.at_int(i); },
                                       &ir::Tensor::from_ints);
}

/// The values of integer keys that lie close together, by a table of all integers between: nullopt
/// if that would be large.
std::optional<Term> look_up_dense(const Term& x, const ir::Tensor& keys, const ir::Tensor& values,
                                  double other) {
  constexpr std::int64_t kMostPerKey = 8, kMostAnyway = 4096;
  if (keys.dtype() != DType::kInt64 && keys.dtype() != DType::kInt32) return std::nullopt;
  const std::vector<std::int64_t> all = keys.to_ints();
  const auto [least, most] = std::ranges::minmax(all);
  const std::int64_t limit = std::max(kMostPerKey * std::ssize(all), kMostAnyway);
  // Unsigned: the keys may be as far apart as int64 allows.
  if (static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least) >=
      static_cast<std::uint64_t>(limit))
    return std::nullopt;
  std::vector<std::int64_t> place_of(static_cast<std::size_t>(most - least + 1), -1);
  for (std::int64_t i = std::ssize(all); i-- > 0;)  // of equal keys the first one counts
    place_of[static_cast<std::size_t>(all[static_cast<std::size_t>(i)] - least)] = i;
  NodeContext& node = x.node();
  const auto number = [&](std::int64_t value) {
    const std::int64_t values_of[] = {value};
    return Term(node, node.builder().constant(ir::Tensor::from_ints(x.dtype(), {}, values_of)));
  };
  const Term low = number(least), high = number(most);
  const Term known = x.with("GreaterOrEqual", low).with("And", x.with("LessOrEqual", high));
  const Term table(node, node.builder().constant(picked(values, place_of, other)));
  return take(table, {select(known, x - low, number(most - least + 1))});
}

/// From version 4 on a NaN key matches NaN elements.
template <bool kFindsNan>
void label_encoder(NodeContext& node) {
  const Term x(node, node.input(0, "X"));
  if (const auto names = node.attr_strings("classes_strings"); names && !names->empty())
    refuse_strings(node, "classes");
  const auto keys = encoder_table(node, "keys"), values = encoder_table(node, "values");
  if (!keys || !values) node.invalid("it has no keys or no values");
  const std::int64_t count = keys->element_count();
  if (values->element_count() != count || count == 0)
    node.invalid("it has {} keys, but {} values", count, values->element_count());
  if (keys->dtype() != x.dtype())
    node.invalid("its keys are {}, but X is {}", to_string(keys->dtype()), node.type(x.value()));
  const DType dtype = values->dtype();
  double other = dtype == DType::kInt64 ? -1 : 0;
  if (const auto tensor = node.attr_tensor("default_tensor"); tensor && tensor->element_count() > 0)
    other = tensor->at(0);
  else if (is_float(dtype))
    other = node.attr_float("default_float", 0);
  else
    other = static_cast<double>(node.attr_value("default_int64", -1));

  if (const auto found = look_up_dense(x, *keys, *values, other)) {
    node.output(found->value());
    return;
  }
  // The index of the matching key, or of the default after all keys.
  Shape shape = x.shape();
  const auto axis = shape.size();
  shape.emplace_back(1);
  const Term wide = x.reshape(shape);
  const Term table(node, node.builder().constant(keys->reshaped({count})));
  Term hit = wide.with("Equal", table);
  if (kFindsNan && is_float(x.dtype()))
    hit = hit.with("Or", wide.apply("IsNan").with("And", table.apply("IsNan")));
  const Term place = iota(node, Dim(count), axis, axis + 1);
  const Term found =
      reduce("ReduceMin", select(hit, place, place.number(static_cast<double>(count))), axis);
  const ValueId results = node.concat({node.builder().constant(values->reshaped({count})),
                                       node.reshape(node.constant(dtype, other), {Dim(1)})},
                                      0);
  node.output(take({node, results}, {found}).value());
}

}  // namespace

const OpRows kFeatureOps = {
    {"Scaler", 1, scaler, "offset scale", kMl, Types::kNumbers, FourBits::kRefuses, kMlHoldsUntil},
    {"Normalizer", 1, normalizer, "norm", kMl, Types::kNumbers, FourBits::kRefuses, kMlHoldsUntil},
    {"Imputer", 1, imputer,
     "imputed_value_floats imputed_value_int64s replaced_value_float replaced_value_int64", kMl,
     Types::kNumbers, FourBits::kRefuses, kMlHoldsUntil},
    {"Binarizer", 1, binarizer, "threshold", kMl, Types::kNumbers, FourBits::kRefuses,
     kMlHoldsUntil},
    {"FeatureVectorizer", 1, feature_vectorizer, "inputdimensions", kMl, Types::kNumbers,
     FourBits::kRefuses, kMlHoldsUntil},
    {"ArrayFeatureExtractor", 1, array_feature_extractor, "", kMl, Types::kAny, FourBits::kRefuses,
     kMlHoldsUntil},
    {"OneHotEncoder", 1, one_hot_encoder, "cats_int64s cats_strings zeros", kMl, Types::kNumbers,
     FourBits::kRefuses, kMlHoldsUntil},
    {"LabelEncoder", 1, label_encoder<false>,
     "classes_strings:-1 default_float:2- default_int64 default_string keys_floats:2- "
     "keys_int64s:2- keys_strings:2- values_floats:2- values_int64s:2- values_strings:2-",
     kMl, Types::kNumbers, FourBits::kRefuses, 3},
    {"LabelEncoder", 4, label_encoder<true>,
     "default_float default_int64 default_string default_tensor keys_floats keys_int64s "
     "keys_strings keys_tensor values_floats values_int64s values_strings values_tensor",
     kMl, Types::kNumbers, FourBits::kRefuses, kMlHoldsUntil},
};

}  // namespace sinter::frontend
