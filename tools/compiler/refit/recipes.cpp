// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/refit/recipes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "codegen/transforms.h"
#include "frontend/transforms.h"
#include "fusion/transforms.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/scale_format.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

using nlohmann::json;

// Maximum bytes of a constant of the compiler's own that recipes store; constants derived from
// larger ones are not refittable.
constexpr std::size_t kMostBytes = std::size_t{1} << 16;

/// Builds a table of the calls that constants share.
class Collector {
 public:
  explicit Collector(Recipes& recipes) : recipes_(recipes) {}

  RecipeTensor tensor(const ir::Tensor& tensor) {
    RecipeTensor result = place(tensor.buffer() ? tensor.buffer()->recipe() : nullptr);
    result.dtype = tensor.dtype();
    result.shape = tensor.shape();
    if (result.source < 0 && result.call < 0) {
      const ir::Tensor plain = tensor.plain();
      const ir::HeldBytes held = plain.hold();
      result.bytes.assign(held.bytes.begin(), held.bytes.end());
    }
    return result;
  }

  /// Without type and shape.
  RecipeTensor place(const std::shared_ptr<const ir::Recipe>& recipe) {
    RecipeTensor result;
    if (!recipe) return result;
    if (recipe->call) {
      result.call = call(recipe->call);
      result.output = recipe->output;
    } else {
      result.source = source(*recipe);
    }
    return result;
  }

  /// False if the recipe depends on bytes of the compiler's own that are too many to store: such a
  /// constant cannot be recomputed.
  static bool is_known(const std::shared_ptr<const ir::Recipe>& recipe) {
    if (!recipe || !recipe->call) return true;
    return std::ranges::all_of(recipe->call->inputs, [](const ir::Tensor& input) {
      if (!input.buffer()) return true;
      return input.buffer()->recipe() ? is_known(input.buffer()->recipe())
                                      : input.byte_count() <= kMostBytes;
    });
  }

  /// Calls `visit` for the model's tensors in `recipe`.
  template <typename Visit>
  static void for_each_source(const ir::Recipe& recipe, const Visit& visit) {
    if (!recipe.call) return;
    for (const ir::Tensor& input : recipe.call->inputs) {
      if (!input.buffer() || !input.buffer()->recipe()) continue;
      if (input.buffer()->recipe()->call)
        for_each_source(*input.buffer()->recipe(), visit);
      else
        visit(*input.buffer());
    }
  }

 private:
  int source(const ir::Recipe& recipe) {
    const auto [at, added] =
        sources_.emplace(recipe.source, static_cast<int>(recipes_.sources.size()));
    if (added) {
      ir::Ints shape;
      for (const ir::Dim& dim : recipe.source_type.shape) shape.push_back(dim.value());
      recipes_.sources.push_back({recipe.source, recipe.source_type.dtype, std::move(shape)});
    }
    return at->second;
  }

  int call(const std::shared_ptr<const ir::Call>& call) {
    if (const auto known = by_address_.find(call.get()); known != by_address_.end())
      return known->second;
    RecipeCall made{call->name, call->attrs, {}};
    for (const ir::Tensor& input : call->inputs) made.inputs.push_back(tensor(input));
    const auto same = [&](const RecipeTensor& a, const RecipeTensor& b) {
      return std::tie(a.dtype, a.shape, a.source, a.call, a.output, a.bytes) ==
             std::tie(b.dtype, b.shape, b.source, b.call, b.output, b.bytes);
    };
    // Searches equal calls by their first input, which distinguishes most.
    const auto first = std::pair(made.inputs[0].source, made.inputs[0].call);
    const auto [begin, end] = by_input_.equal_range(first);
    for (auto it = begin; it != end; ++it) {
      const RecipeCall& known = recipes_.calls[static_cast<std::size_t>(it->second)];
      if (known.name == made.name && known.attrs == made.attrs &&
          std::ranges::equal(known.inputs, made.inputs, same)) {
        by_address_.emplace(call.get(), it->second);
        return it->second;
      }
    }
    const int index = static_cast<int>(recipes_.calls.size());
    recipes_.calls.push_back(std::move(made));
    by_input_.emplace(first, index);
    by_address_.emplace(call.get(), index);
    return index;
  }

  Recipes& recipes_;
  std::map<std::string, int> sources_;
  std::map<const ir::Call*, int> by_address_;
  std::multimap<std::pair<int, int>, int> by_input_;
};

json attr_json(const ir::Attr& attr) {
  struct Visitor {
    json operator()(std::int64_t value) const { return {"int", value}; }
    json operator()(double value) const { return {"float", std::bit_cast<std::uint64_t>(value)}; }
    json operator()(const std::string& value) const { return {"string", value}; }
    json operator()(const ir::Ints& values) const { return {"ints", values}; }
    json operator()(const std::vector<ir::Dim>& dims) const {
      ir::Ints values;
      for (const ir::Dim& dim : dims) values.push_back(dim.value());
      return {"dims", values};
    }
    json operator()(DType value) const { return {"type", to_string(value)}; }
  };
  return std::visit(Visitor(), attr);
}

DType dtype_of(const json& text) {
  const auto type = dtype_from_string(text.get_ref<const std::string&>());
  if (!type) throw invalid_plan_error("unknown element type");
  return *type;
}

ir::Attr attr_of(const json& value) {
  const auto& kind = value.at(0).get_ref<const std::string&>();
  const json& of = value.at(1);
  if (kind == "int") return of.get<std::int64_t>();
  if (kind == "float") return std::bit_cast<double>(of.get<std::uint64_t>());
  if (kind == "string") return of.get<std::string>();
  if (kind == "ints") return of.get<ir::Ints>();
  if (kind == "type") return dtype_of(of);
  if (kind != "dims") throw invalid_plan_error("unknown kind of attribute");
  std::vector<ir::Dim> dims;
  for (const std::int64_t dim : of.get<ir::Ints>()) dims.emplace_back(dim);
  return dims;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes) text += fmt::format("{:02x}", std::to_integer<int>(each));
  return text;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw invalid_plan_error("bytes are no hexadecimal digits");
  };
  if (text.size() % 2 != 0) throw invalid_plan_error("half a byte");
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
  return bytes;
}

/// [type, shape, from]: a source's index, [call, output], or bytes.
json tensor_json(const RecipeTensor& tensor) {
  json from = tensor.source >= 0 ? json(tensor.source)
              : tensor.call >= 0 ? json{tensor.call, tensor.output}
                                 : json(hex(tensor.bytes));
  return json::array({to_string(tensor.dtype), tensor.shape, std::move(from)});
}

class Parser {
 public:
  Recipes parse(const json& text) {
    recipes_.structure = number(text.at("structure"));
    for (const json& each : text.at("sources"))
      recipes_.sources.push_back(
          {each.at(0).get<std::string>(), dtype_of(each.at(1)), each.at(2).get<ir::Ints>()});
    recipes_.unused = text.at("unused").get<std::vector<std::string>>();
    for (const json& each : text.at("calls")) {
      RecipeCall call{each.at(0).get<std::string>(), {}, {}};
      if (!find_callable(call.name))
        throw invalid_plan_error("'{}' is unknown to this version", call.name);
      for (const auto& [name, value] : each.at(1).items()) call.attrs.set(name, attr_of(value));
      for (const json& input : each.at(2)) call.inputs.push_back(tensor(input));
      // Limits the depth, since calls are followed recursively.
      constexpr std::size_t kDeepest = 256;
      std::size_t depth = 1;
      for (const RecipeTensor& input : call.inputs)
        if (input.call >= 0)
          depth = std::max(depth, 1 + depths_[static_cast<std::size_t>(input.call)]);
      if (depth > kDeepest)
        throw invalid_plan_error("a constant is made in more than {} steps", kDeepest);
      depths_.push_back(depth);
      recipes_.calls.push_back(std::move(call));
    }
    for (const json& each : text.at("weights"))
      recipes_.weights.push_back({each.at(0).get<std::uint64_t>(), tensor(each.at(1))});
    for (const json& each : text.at("lines"))
      recipes_.lines.push_back({each.at(0).get<std::uint64_t>(), tensor(each.at(1))});
    for (const json& each : text.at("reads"))
      recipes_.reads.push_back(
          {tensor(each.at(0)), number(each.at(1)), each.at(2).get<std::string>()});
    for (const json& each : text.at("equal"))
      recipes_.equal.emplace_back(tensor(each.at(0)), tensor(each.at(1)));
    return std::move(recipes_);
  }

 private:
  static std::uint64_t number(const json& text) { return text.get<std::uint64_t>(); }

  RecipeTensor tensor(const json& text) const {
    RecipeTensor result;
    result.dtype = dtype_of(text.at(0));
    result.shape = text.at(1).get<ir::Ints>();
    const json& from = text.at(2);
    const auto check = [](std::int64_t index, std::size_t count) {
      if (index < 0 || static_cast<std::size_t>(index) >= count)
        throw invalid_plan_error("a constant is made of one that is not there");
      return static_cast<int>(index);
    };
    if (from.is_number()) {
      result.source = check(from.get<std::int64_t>(), recipes_.sources.size());
    } else if (from.is_array()) {
      result.call = check(from.at(0).get<std::int64_t>(), recipes_.calls.size());
      result.output = from.at(1).get<std::size_t>();
    } else {
      result.bytes = bytes_of(from.get_ref<const std::string&>());
    }
    return result;
  }

  Recipes recipes_;
  std::vector<std::size_t> depths_;  // by call
};

}  // namespace

std::size_t RecipeTensor::byte_count() const {
  std::size_t count = size_of(dtype);
  for (const std::int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(count, static_cast<std::size_t>(dim), &count))
      throw invalid_plan_error("a shape of its recipes overflows");
  return count;
}

Recipes recipes_of(const codegen::CompiledPlan& plan, const ir::ReadLog& reads,
                   std::uint64_t structure) {
  Recipes recipes;
  recipes.structure = structure;
  Collector collector(recipes);
  const auto recipe_of = [](const auto& tensor) {
    return tensor->buffer() ? tensor->buffer()->recipe() : nullptr;
  };
  std::set<std::tuple<int, int, std::size_t>> read;
  const auto add_read = [&](const std::shared_ptr<const ir::Recipe>& recipe,
                            const std::shared_ptr<const ir::Buffer>& plain,
                            const std::string& reader) {
    RecipeTensor tensor = collector.place(recipe);
    tensor.dtype = DType::kUInt8;  // compared as bytes
    tensor.shape = {static_cast<std::int64_t>(plain->size())};
    if (read.emplace(tensor.source, tensor.call, tensor.output).second)
      recipes.reads.push_back({std::move(tensor), plain->hash(), reader});
  };
  // The sources of a constant that cannot be recomputed must stay unchanged.
  const auto is_known = [&](const std::shared_ptr<const ir::Recipe>& recipe) {
    if (Collector::is_known(recipe)) return true;
    Collector::for_each_source(*recipe, [&](const ir::Buffer& source) {
      add_read(source.recipe(), source.plain(), "a large constant made of it and others");
    });
    return false;
  };
  for (const codegen::TracedWeight& weight : plan.traced)
    if (is_known(recipe_of(weight.tensor)))
      recipes.weights.push_back({weight.offset, collector.tensor(*weight.tensor)});
  for (std::size_t i = 0; i < plan.printed.size(); ++i)
    if (recipe_of(plan.printed[i]) && is_known(recipe_of(plan.printed[i])))
      recipes.lines.push_back({i, collector.tensor(*plan.printed[i])});
  for (const ir::ReadLog::Read& each : reads.reads())
    if (is_known(each.recipe)) add_read(each.recipe, each.plain, each.reader);
  std::set<std::tuple<int, int, std::size_t, int, int, std::size_t>> equal;
  for (const ir::ReadLog::Equal& each : reads.equals()) {
    if (!is_known(each.a) || !is_known(each.b)) continue;
    RecipeTensor a = collector.place(each.a), b = collector.place(each.b);
    const auto key = [](const RecipeTensor& of) {
      return std::tuple(of.source, of.call, of.output);
    };
    if (key(a) == key(b)) continue;
    if (key(b) < key(a)) std::swap(a, b);
    if (equal.insert(std::tuple_cat(key(a), key(b))).second) recipes.equal.emplace_back(a, b);
  }
  std::set<std::string> unused = reads.sources();
  for (const RecipeSource& source : recipes.sources) unused.erase(source.name);
  recipes.unused.assign(unused.begin(), unused.end());
  return recipes;
}

std::string to_text(const Recipes& recipes) {
  json text = {{"structure", recipes.structure}, {"sources", json::array()},
               {"unused", recipes.unused},       {"calls", json::array()},
               {"weights", json::array()},       {"lines", json::array()},
               {"reads", json::array()},         {"equal", json::array()}};
  for (const RecipeSource& source : recipes.sources)
    text["sources"].push_back({source.name, to_string(source.dtype), source.shape});
  for (const RecipeCall& call : recipes.calls) {
    json attrs = json::object(), inputs = json::array();
    for (const auto& [name, attr] : call.attrs.values()) attrs[name] = attr_json(attr);
    for (const RecipeTensor& input : call.inputs) inputs.push_back(tensor_json(input));
    text["calls"].push_back(json::array({call.name, std::move(attrs), std::move(inputs)}));
  }
  for (const auto& [list, name] :
       {std::pair(&recipes.weights, "weights"), std::pair(&recipes.lines, "lines")})
    for (const RecipeUse& use : *list)
      text[name].push_back(json::array({use.offset, tensor_json(use.tensor)}));
  for (const RecipeRead& each : recipes.reads)
    text["reads"].push_back(json::array({tensor_json(each.tensor), each.hash, each.reader}));
  for (const auto& [a, b] : recipes.equal)
    text["equal"].push_back(json::array({tensor_json(a), tensor_json(b)}));
  // Names may be invalid UTF-8.
  return text.dump(-1, ' ', true, json::error_handler_t::replace);
}

Recipes parse_recipes(std::string_view text) {
  try {
    return Parser().parse(json::parse(text));
  } catch (const json::exception&) {
    throw invalid_plan_error("its recipes are damaged: recompile the model");
  } catch (Error& error) {
    error.add_context("reading the plan's recipes");
    throw;
  }
}

Callable find_callable(std::string_view name) {
  Callable result;
  const auto find = [&](auto list, auto*& place) {
    for (const auto* each : list)
      if (each->name == name) place = each;
  };
  find(fusion::transforms(), result.transform);
  find(codegen::transforms(), result.transform);
  find(fusion::derivations(), result.derivation);
  find(codegen::derivations(), result.derivation);
  find(frontend::transforms(), result.transform);
  find(std::array{&ir::kIsWithin, &ir::kDequantized, &ir::kScaleNumbers, &ir::kRowFactors},
       result.transform);
  if (!result) result.op = ir::find_op(name);
  return result;
}

namespace {

void require_room(std::uint64_t bytes, std::uint64_t limit) {
  if (bytes > limit)
    throw invalid_plan_error("it makes a constant of {} bytes, which no weight needs", bytes);
}

std::uint64_t bytes_of(DType type, const ir::Ints& shape) {
  return RecipeTensor{type, shape, -1, -1, 0, {}}.byte_count();
}

/// Builds a node in a graph, which checks attributes and types.
void check_operator(const ir::OpDef& op, const ir::Attrs& attrs, std::span<const ir::Tensor> inputs,
                    std::uint64_t limit) {
  if (op.kind == ir::OpKind::kFused || op.kind == ir::OpKind::kWhile ||
      op.kind == ir::OpKind::kExtent)
    throw invalid_plan_error("its values follow from no constants");
  ir::GraphBuilder builder;
  std::vector<ir::ValueId> ids;
  for (const ir::Tensor& input : inputs)
    ids.push_back(builder.input(fmt::format("x{}", ids.size()), input.type()));
  for (const ir::ValueId id : builder.add_multi(op.name, std::move(ids), attrs)) {
    ir::Ints shape;
    for (const ir::Dim& dim : builder.type(id).shape) shape.push_back(dim.value());
    require_room(bytes_of(builder.type(id).dtype, shape), limit);
  }
}

}  // namespace

void check_call(const Callable& callable, const RecipeCall& call,
                std::span<const ir::Tensor> inputs, std::uint64_t limit) try {
  if (callable.op != nullptr) return check_operator(*callable.op, call.attrs, inputs, limit);
  const ir::Fits fits =
      callable.transform != nullptr ? callable.transform->fits : callable.derivation->fits;
  if (!fits(call.attrs, inputs)) throw invalid_plan_error("its inputs do not fit");
  if (callable.derivation == nullptr) return;
  const auto [type, shape] = callable.derivation->type(call.attrs, inputs);
  require_room(bytes_of(type, shape), limit);
} catch (const Error& error) {
  throw invalid_plan_error(
      "its recipes are damaged: '{}' cannot be applied to what they say: {}: recompile the model",
      call.name, error.what());
}

bool is_answer(const Recipes& recipes, const RecipeTensor& tensor) {
  if (tensor.call < 0 || tensor.output >= 32) return false;
  const Callable call = find_callable(recipes.calls[static_cast<std::size_t>(tensor.call)].name);
  return call.transform != nullptr && (call.transform->answers >> tensor.output & 1U) != 0;
}

std::vector<bool> sources_of(const Recipes& recipes, const RecipeTensor& tensor) {
  std::vector<bool> found(recipes.sources.size(), false), seen(recipes.calls.size(), false);
  std::vector<const RecipeTensor*> open{&tensor};
  while (!open.empty()) {
    const RecipeTensor& each = *open.back();
    open.pop_back();
    if (each.source >= 0) found[static_cast<std::size_t>(each.source)] = true;
    if (each.call < 0 || seen[static_cast<std::size_t>(each.call)]) continue;
    seen[static_cast<std::size_t>(each.call)] = true;
    for (const RecipeTensor& input : recipes.calls[static_cast<std::size_t>(each.call)].inputs)
      open.push_back(&input);
  }
  return found;
}

}  // namespace sinter::tools
