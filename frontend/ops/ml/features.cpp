// SPDX-License-Identifier: Apache-2.0
// Operators of ai.onnx.ml that prepare columns: scaling, encoding, imputing, selecting.
#include <algorithm>
#include <cmath>
#include <unordered_map>

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
    // As in ONNX Runtime: a vector is one row, further dimensions are columns.
    const Shape shape = x.shape();
    if (shape.empty())
      node.invalid("input {} must be [rows, columns], but is {}", i, node.type(x.value()));
    x = shape.size() == 1
            ? x.reshape({Dim(1), shape[0]})
            : x.reshape({shape[0], ir::element_count({shape.begin() + 1, shape.end()})});
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

/// The strings that input X stands for. Throws Error(kInvalidModel) if it holds numbers or hashes.
const std::vector<std::string>& strings_of_x(const NodeContext& node) {
  const TextPtr text = node.text(0);
  if (!text || text->code != BindingText::Code::kLabels)
    node.invalid("its categories are strings, but X holds {}",
                 text ? "hashes of strings" : "numbers");
  return text->labels;
}

/// The integers that stand for `wanted` in X; -2, which stands for nothing, for strings that X
/// cannot have.
Ints codes_in_x(const NodeContext& node, const std::vector<std::string>& wanted) {
  const std::vector<std::string>& labels = strings_of_x(node);
  std::unordered_map<std::string_view, std::int64_t> places;
  for (std::size_t i = 0; i < labels.size(); ++i)
    places.emplace(labels[i], static_cast<std::int64_t>(i));
  Ints codes;
  for (const std::string& text : wanted) {
    const auto found = places.find(text);
    codes.push_back(found == places.end() ? -2 : found->second);
  }
  return codes;
}

void one_hot_encoder(NodeContext& node) {
  const Term x(node, node.input(0, "X"));
  auto categories = node.attr_ints("cats_int64s");
  if (const auto names = node.attr_strings("cats_strings"); names && !names->empty())
    categories = codes_in_x(node, *names);
  else if (node.text(0))
    node.invalid("X holds strings, but its categories are numbers");
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

/// Strings of the attribute NAME_strings or NAME_tensor, as integers that stand for them in X
/// (keys) or in the model's list (values).
std::optional<Ints> encoder_strings(const NodeContext& node, const std::string& what) {
  auto names = node.attr_strings(what + "_strings");
  if (names && names->empty()) names.reset();
  if (!names && node.has_attr(what + "_tensor"))
    if (const auto codes = node.attr_text_tensor(what + "_tensor")) {
      names.emplace();
      for (const std::int64_t code : codes->to_ints())
        names->push_back(node.model_texts().all()->labels[static_cast<std::size_t>(code)]);
    }
  if (!names) return std::nullopt;
  if (what == "keys") return codes_in_x(node, *names);
  Ints codes;
  for (const std::string& text : *names) codes.push_back(node.model_texts().code(text));
  return codes;
}

/// Keys or values of a LabelEncoder.
std::optional<ir::Tensor> encoder_table(const NodeContext& node, const std::string& what) {
  if (const auto codes = encoder_strings(node, what))
    return ir::Tensor::from_ints(DType::kInt64, {std::ssize(*codes)}, *codes);
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

/// LabelEncoder-1: strings to their indices, or indices to strings.
void encode_classes(NodeContext& node, const std::vector<std::string>& classes) {
  const Term x(node, node.input(0, "X"));
  const Ints codes = node.text(0) ? codes_in_x(node, classes) : Ints();
  if (!node.text(0)) {
    const auto text =
        std::make_shared<BindingText>(BindingText{BindingText::Code::kLabels, classes});
    const Term known = x.with("GreaterOrEqual", 0)
                           .with("And", x.with("Less", static_cast<double>(classes.size())));
    node.give_text(0, text);
    return node.output(
        select(known, x.cast(DType::kInt64), x.cast(DType::kInt64).number(-1)).value());
  }
  Ints indices;
  for (std::size_t i = 0; i < codes.size(); ++i) indices.push_back(static_cast<std::int64_t>(i));
  const auto keys = ir::Tensor::from_ints(DType::kInt64, {std::ssize(codes)}, codes),
             values = ir::Tensor::from_ints(DType::kInt64, {std::ssize(codes)}, indices);
  const auto other = static_cast<double>(node.attr_value("default_int64", -1));
  node.output(look_up_dense(x, keys, values, other)->value());
}

/// CategoryMapper: strings to integers, or integers to strings, by two lists.
void category_mapper(NodeContext& node) {
  const Term x(node, node.input(0, "X"));
  const auto texts = node.attr_strings("cats_strings");
  const auto numbers = node.attr_ints("cats_int64s");
  if (!texts || !numbers || texts->size() != numbers->size() || texts->empty())
    node.invalid("cats_strings and cats_int64s must be as many");
  const auto table = [](const Ints& ints) {
    return ir::Tensor::from_ints(DType::kInt64, {std::ssize(ints)}, ints);
  };
  Ints codes;
  double other = static_cast<double>(node.attr_value("default_int64", -1));
  const bool reads_strings = node.text(0) != nullptr;
  if (reads_strings) {
    codes = codes_in_x(node, *texts);
  } else {
    for (const std::string& text : *texts) codes.push_back(node.model_texts().code(text));
    node.give_text(0, node.model_texts().all());
    other =
        static_cast<double>(node.model_texts().code(node.attr_string("default_string", "_Unused")));
  }
  const auto found = reads_strings ? look_up_dense(x, table(codes), table(*numbers), other)
                                   : look_up_dense(x, table(*numbers), table(codes), other);
  if (!found) node.unsupported("its numbers are too far apart for a table");
  node.output(found->value());
}

/// A sequence of maps from class to probability: the tensor itself, whose columns are the classes.
void zip_map(NodeContext& node) {
  BindingText text{BindingText::Code::kColumns};
  if (auto names = node.attr_strings("classlabels_strings"); names && !names->empty())
    text.labels = std::move(*names);
  else if (const auto numbers = node.attr_ints("classlabels_int64s"))
    for (const std::int64_t number : *numbers) text.labels.push_back(std::to_string(number));
  else
    node.invalid("it has no classlabels_int64s or classlabels_strings");
  const ValueId x = node.input(0, "X");
  const Dim columns = node.shape(x).empty() ? Dim(1) : node.shape(x).back();
  if (columns.is_constant() && columns.value() != std::ssize(text.labels))
    node.invalid("it has {} labels for {}", text.labels.size(), node.type(x));
  node.warn(
      "its output is the tensor of probabilities {}, not a sequence of maps; column i is of "
      "the class that is label i of the plan",
      node.type(x));
  node.give_text(0, std::make_shared<BindingText>(std::move(text)));
  node.output(x);
}

/// From version 4 on a NaN key matches NaN elements.
template <bool kFindsNan>
void label_encoder(NodeContext& node) {
  const Term x(node, node.input(0, "X"));
  if (const auto names = node.attr_strings("classes_strings"); names && !names->empty())
    return encode_classes(node, *names);
  const bool makes_strings = encoder_strings(node, "values").has_value();
  const auto keys = encoder_table(node, "keys"), values = encoder_table(node, "values");
  if (node.text(0) && !encoder_strings(node, "keys"))
    node.invalid("X holds strings, but its keys are numbers");
  if (!keys || !values) node.invalid("it has no keys or no values");
  const std::int64_t count = keys->element_count();
  if (values->element_count() != count || count == 0)
    node.invalid("it has {} keys, but {} values", count, values->element_count());
  if (keys->dtype() != x.dtype())
    node.invalid("its keys are {}, but X is {}", to_string(keys->dtype()), node.type(x.value()));
  const DType dtype = values->dtype();
  double other = dtype == DType::kInt64 ? -1 : 0;
  if (makes_strings) {
    node.give_text(0, node.model_texts().all());
    if (const auto text = node.attr_text_tensor("default_tensor"); text)
      other = static_cast<double>(text->to_ints().at(0));
    else
      other = static_cast<double>(
          node.model_texts().code(node.attr_string("default_string", "_Unused")));
  } else if (const auto tensor = node.attr_tensor("default_tensor");
             tensor && tensor->element_count() > 0)
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
    {"ZipMap", 1, zip_map, "classlabels_int64s classlabels_strings", kMl, Types::kFloats,
     FourBits::kRefuses, kMlHoldsUntil},
    {"CategoryMapper", 1, category_mapper, "cats_int64s cats_strings default_int64 default_string",
     kMl, Types::kAny, FourBits::kRefuses, kMlHoldsUntil},
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
