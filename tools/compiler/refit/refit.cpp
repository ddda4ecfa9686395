// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/refit/refit.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "ir/reference/evaluate.h"
#include "ir/text/shown.h"
#include "ir/text/text.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "runtime/plan/hash.h"
#include "runtime/plan/plan_file.h"
#include "runtime/plan_access.h"

namespace sinter::tools {
namespace {

using ir::Tensor;

constexpr std::size_t kShown = 8;  // maximum names in a message

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i == 0 ? "'" : ", '") + ir::shown(names[i]) + "'";
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

/// Computes constants by their recipes, on demand.
class Maker : public std::enable_shared_from_this<Maker> {
 public:
  /// `limit`: maximum bytes of a constant.
  Maker(Recipes recipes, std::vector<std::optional<Tensor>> sources, std::uint64_t limit)
      : recipes_(std::move(recipes)),
        sources_(std::move(sources)),
        limit_(limit),
        results_(recipes_.calls.size()),
        derived_(recipes_.calls.size()) {}

  const Recipes& recipes() const { return recipes_; }

  std::shared_ptr<const ir::Buffer> buffer(const RecipeTensor& of) {
    std::shared_ptr<const ir::Buffer> buffer;
    if (of.source >= 0)
      buffer = sources_[static_cast<std::size_t>(of.source)].value().buffer();
    else if (of.call >= 0)
      buffer = result(static_cast<std::size_t>(of.call), of.output);
    else
      buffer = ir::Buffer::copy_of(of.bytes);
    return buffer ? buffer : ir::Buffer::copy_of({});
  }

  Tensor tensor(const RecipeTensor& of) {
    const std::size_t size = of.byte_count();
    auto buffer = this->buffer(of);
    if (buffer->size() != size)
      throw unsupported_error("a weight of {} bytes would have {}: compile the new model", size,
                              buffer->size());
    return Tensor(of.dtype, of.shape, std::move(buffer));
  }

 private:
  std::vector<Tensor> inputs_of(const RecipeCall& call) {
    std::vector<Tensor> inputs;
    for (const RecipeTensor& input : call.inputs) inputs.push_back(tensor(input));
    return inputs;
  }

  std::shared_ptr<const ir::Buffer> result(std::size_t index, std::size_t output) {
    const RecipeCall& call = recipes_.calls[index];
    const Callable callable = find_callable(call.name);
    auto& results = results_[index];
    auto& derived = derived_[index];
    if (!results && !derived) {
      const std::vector<Tensor> inputs = inputs_of(call);
      check_call(callable, call, inputs, limit_);
      if (callable.derivation != nullptr)
        derived = ir::derive(*callable.derivation, call.attrs, inputs).buffer();
      else
        results = callable.transform != nullptr ? callable.transform->apply(call.attrs, inputs)
                                                : ir::evaluate_op(*callable.op, call.attrs, inputs);
    }
    if (derived) return derived;
    // The number of results depends on values, so a decision depends on it.
    if (output >= results->size())
      throw unsupported_error("a weight would not be there at all: compile the new model");
    return (*results)[output].buffer();
  }

  const Recipes recipes_;
  std::vector<std::optional<Tensor>> sources_;
  std::uint64_t limit_;
  std::vector<std::optional<std::vector<Tensor>>> results_;
  std::vector<std::shared_ptr<const ir::Buffer>> derived_;
};

/// How many of a constant's sources are given.
enum class Given { kNothing, kSome, kAll };

class Refitter {
 public:
  Refitter(const std::shared_ptr<const plan::PlanData>& plan, const NewWeights& weights,
           bool partial)
      : plan_(plan), weights_(weights), partial_(partial), recipes_(recipes_in(*plan)) {}

  Refitted run(const Reporter& reporter) {
    check_scales();
    check_names();
    std::vector<std::optional<Tensor>> sources;
    for (const RecipeSource& source : recipes_.sources) {
      const auto given = weights_.tensors.find(source.name);
      sources.push_back(given == weights_.tensors.end() ? std::nullopt
                                                        : std::optional(given->second));
    }
    check_missing();
    // Intermediate constants are about as large as weights.
    constexpr std::uint64_t kTimes = 16, kLeast = 1 << 20;
    std::uint64_t limit = plan_->weights.size() + kLeast;
    for (const auto& source : sources) limit += source ? source->byte_count() : 0;
    maker_ = std::make_shared<Maker>(recipes_, std::move(sources), kTimes * limit);
    const std::size_t work = recipes_.reads.size() + recipes_.lines.size();
    std::size_t done = 0;
    const auto advance = [&] {
      reporter.check();
      reporter.progress("weights", ++done, work);
    };
    check_values(advance);
    Refitted result;
    result.parts.meta = plan_->meta;
    change_text(result.parts.meta.graph_text, advance);
    change_manifest(result.parts.meta);
    add_weights(result);
    for (const auto& [bytes, list] : {std::pair(plan_->modules, &result.parts.modules),
                                      std::pair(plan_->sources, &result.parts.sources)})
      if (!bytes.empty()) list->emplace_back(0, bytes, plan_);
    return result;
  }

 private:
  Given given(const RecipeTensor& tensor) const {
    const std::vector<bool> sources = sources_of(recipes_, tensor);
    bool some = false, all = true;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (!sources[i]) continue;
      const bool is_given = weights_.tensors.contains(recipes_.sources[i].name);
      some = some || is_given;
      all = all && is_given;
    }
    return !some ? Given::kNothing : all ? Given::kAll : Given::kSome;
  }

  /// 8-bit attention has no weights from which scales could be recomputed.
  void check_scales() const {
    if (!plan_->meta.manifest) return;
    for (const auto& option : plan_->meta.manifest->options)
      if (option->key == "attention-precision")
        throw unsupported_error(
            "the plan's attention has scales that samples gave with the old weights "
            "(--attention-precision): compile the new model");
  }

  void check_names() const {
    if (weights_.structure && *weights_.structure != recipes_.structure)
      throw usage_error(
          "'{}' is another model than the plan's: its nodes, inputs or outputs differ, not just "
          "its "
          "weights: compile it",
          weights_.name);
    std::vector<std::string> unknown;
    for (const auto& [name, tensor] : weights_.tensors) {
      const auto source = std::ranges::find(recipes_.sources, name, &RecipeSource::name);
      if (source == recipes_.sources.end()) {
        const bool is_unused = std::ranges::find(recipes_.unused, name) != recipes_.unused.end();
        if (!is_unused && !weights_.structure) unknown.push_back(name);
        continue;
      }
      if (tensor.dtype() != source->dtype || tensor.shape() != source->shape)
        throw usage_error("tensor '{}' is {}[{}], but the plan's model has {}[{}]", ir::shown(name),
                          to_string(tensor.dtype()), fmt::join(tensor.shape(), ", "),
                          to_string(source->dtype), fmt::join(source->shape, ", "));
    }
    if (!unknown.empty())
      throw usage_error(
          "the plan's model has no tensor {}: names are those of the ONNX model's initializers, "
          "which inspecting the plan for refit lists",
          names_text(unknown));
  }

  /// Every weight needs all of its sources, or (if `partial_`) none.
  void check_missing() const {
    std::vector<bool> missing(recipes_.sources.size(), false);
    const auto look = [&](const RecipeTensor& tensor) {
      const Given how = given(tensor);
      if (how == Given::kAll || (how == Given::kNothing && partial_)) return;
      const std::vector<bool> sources = sources_of(recipes_, tensor);
      for (std::size_t i = 0; i < sources.size(); ++i)
        if (sources[i] && !weights_.tensors.contains(recipes_.sources[i].name)) missing[i] = true;
    };
    for (const RecipeUse& use : recipes_.weights) look(use.tensor);
    // Other constants matter only if some of their sources are given.
    const auto look_at_mixed = [&](const RecipeTensor& tensor) {
      if (given(tensor) == Given::kSome) look(tensor);
    };
    for (const RecipeUse& use : recipes_.lines) look_at_mixed(use.tensor);
    for (const RecipeRead& read : recipes_.reads) look_at_mixed(read.tensor);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < missing.size(); ++i)
      if (missing[i]) names.push_back(recipes_.sources[i].name);
    if (!names.empty())
      throw usage_error("there is no new value for {}{}", names_text(names),
                        partial_
                            ? ", which weights are made of together with tensors that are given"
                            : ": give all, or ask for --partial to keep weights");
  }

  template <typename Advance>
  void check_values(const Advance& advance) {
    std::vector<std::string> refused;
    std::string reader;
    const auto refuse = [&](const RecipeTensor& tensor, const std::string& why) {
      const std::vector<bool> sources = sources_of(recipes_, tensor);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        const std::string& name = recipes_.sources[i].name;
        if (sources[i] && std::ranges::find(refused, name) == refused.end())
          refused.push_back(name);
      }
      if (reader.empty()) reader = why;
    };
    for (const RecipeRead& read : recipes_.reads) {
      advance();
      if (given(read.tensor) == Given::kNothing) continue;
      if (hash_of(read) == read.hash) continue;
      refuse(read.tensor, is_answer(recipes_, read.tensor)
                              ? fmt::format("{} decided by their values ({}), and would decide "
                                            "otherwise now",
                                            read.reader, question(read.tensor))
                              : fmt::format("{} made their values a part of the plan's code or "
                                            "shapes",
                                            read.reader));
    }
    for (const auto& [a, b] : recipes_.equal) {
      const Given one = given(a), other = given(b);
      if (one == Given::kNothing && other == Given::kNothing) continue;
      if (one == Given::kAll && other == Given::kAll && bytes_equal(a, b)) continue;
      const std::string why = "constants that were equal are one in the plan, and differ now";
      refuse(a, why);
      refuse(b, why);
    }
    if (!refused.empty())
      throw unsupported_error("the plan cannot have these values of {}: {}: compile the new model",
                              names_text(refused), reader);
  }

  const std::string& question(const RecipeTensor& tensor) const {
    return recipes_.calls[static_cast<std::size_t>(tensor.call)].name;
  }

  /// A missing result, or one of another size, has another hash.
  std::uint64_t hash_of(const RecipeRead& read) {
    try {
      return maker_->tensor(read.tensor).buffer()->hash();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      return ~read.hash;
    }
  }

  bool bytes_equal(const RecipeTensor& a, const RecipeTensor& b) {
    const auto one = maker_->buffer(a), other = maker_->buffer(b);
    const ir::HeldBytes x = one->hold(), y = other->hold();
    return std::ranges::equal(x.bytes, y.bytes);
  }

  /// Graph text contains hashes of large constants and values of small ones.
  template <typename Advance>
  void change_text(std::string& text, const Advance& advance) {
    std::map<std::uint64_t, const RecipeTensor*> lines;
    for (const RecipeUse& line : recipes_.lines)
      if (given(line.tensor) == Given::kAll) lines.emplace(line.offset, &line.tensor);
    std::string result;
    std::uint64_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = std::string_view(text).substr(at, end - at);
      const std::size_t value = constant_in(line);
      if (value == std::string_view::npos) {
        result += line;
      } else {
        const auto changed = lines.find(number++);
        result += line.substr(0, changed == lines.end() ? line.size() : value);
        if (changed != lines.end()) {
          advance();
          result += ir::constant_text(maker_->tensor(*changed->second));
        }
      }
      if (end < text.size()) result += '\n';
      at = end + 1;
    }
    text = std::move(result);
  }

  /// Offset of "f32[2] {1, 2}" in "  %w = const f32[2] {1, 2}"; npos for other lines.
  static std::size_t constant_in(std::string_view line) {
    constexpr std::string_view kConst = " = const ";
    std::size_t at = line.find_first_not_of(' ');
    if (at == std::string_view::npos || line[at] != '%') return std::string_view::npos;
    ++at;
    if (at < line.size() && line[at] == '"') {
      for (++at; at < line.size() && line[at] != '"'; ++at)
        if (line[at] == '\\') ++at;
      ++at;
    } else {
      at = std::min(line.find(' ', at), line.size());
    }
    if (at > line.size() || !line.substr(at).starts_with(kConst)) return std::string_view::npos;
    return at + kConst.size();
  }

  void change_manifest(plan::fb::PlanT& meta) const {
    if (!meta.manifest) return;
    if (!weights_.name.empty() && weights_.structure) meta.manifest->model_name = weights_.name;
    meta.manifest->model_hash = weights_.hash;
    // Measurements apply to the old weights.
    meta.manifest->measured.clear();
    std::erase_if(meta.manifest->options,
                  [](const auto& option) { return option->key == "verify"; });
  }

  void add_weights(Refitted& result) {
    std::vector<const RecipeUse*> uses;
    for (const RecipeUse& use : recipes_.weights) uses.push_back(&use);
    std::ranges::sort(uses, {}, [](const RecipeUse* use) { return use->offset; });
    const std::span<const std::byte> old = plan_->weights;
    std::uint64_t end = 0;
    const auto keep_until = [&](std::uint64_t offset) {
      if (offset > end)
        result.parts.weights.emplace_back(end, old.subspan(end, offset - end), plan_);
    };
    for (const RecipeUse* use : uses) {
      const std::uint64_t size = use->tensor.byte_count();
      if (use->offset < end || use->offset > old.size() || size > old.size() - use->offset)
        throw invalid_plan_error("its recipes are of weights that it does not have");
      if (given(use->tensor) != Given::kAll) {
        ++result.kept;
        continue;
      }
      ++result.changed;
      keep_until(use->offset);
      result.parts.weights.emplace_back(use->offset, size, [maker = maker_, tensor = use->tensor] {
        const Tensor made = maker->tensor(tensor);
        ir::HeldBytes held = made.hold();
        // Keeps the buffer alive while its bytes are read.
        auto owner = std::make_shared<std::pair<Tensor, std::shared_ptr<const void>>>(
            made, std::move(held.owner));
        return plan::PieceBytes{held.bytes, std::move(owner)};
      });
      end = use->offset + size;
    }
    keep_until(old.size());
  }

  std::shared_ptr<const plan::PlanData> plan_;
  const NewWeights& weights_;
  const bool partial_;
  const Recipes recipes_;
  std::shared_ptr<Maker> maker_;
};

}  // namespace

Recipes recipes_in(const plan::PlanData& plan) {
  if (plan.meta.refit.empty())
    throw invalid_plan_error(
        "the plan does not say how its weights are made of its model's: it was compiled from Graph "
        "text, or by an older version: compile the ONNX model again");
  return parse_recipes(plan.meta.refit);
}

RefitResult refit_file(const Plan& plan, const std::string& weights_path,
                       const std::string& plan_path, bool partial, Reporter& reporter) {
  files::check_output(plan_path, {weights_path});
  const auto start = std::chrono::steady_clock::now();
  RefitResult result = with_context(fmt::format("refitting with '{}'", weights_path), [&] {
    return refit_to(plan, read_new_weights(weights_path), plan_path, partial, reporter);
  });
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  result.milliseconds = spent.count();
  return result;
}

RefitResult refit_to(const Plan& plan, const NewWeights& weights, const std::string& plan_path,
                     bool partial, Reporter& reporter) {
  const auto start = std::chrono::steady_clock::now();
  const auto& data = PlanAccess::data(plan);
  files::check_output(plan_path, {data->path});
  RefitResult result;
  const Refitted changed = refit(data, weights, partial, reporter);
  result.changed = changed.changed;
  result.kept = changed.kept;
  if (plan_path.empty()) {
    result.plan = plan::serialize_plan(changed.parts);
    result.plan_bytes = result.plan.size();
  } else {
    plan::PlanFile file(changed.parts, plan_path);
    result.path = plan_path;
    result.plan_bytes = file.size();
    file.commit();
  }
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  result.milliseconds = spent.count();
  return result;
}

Refitted refit(const std::shared_ptr<const plan::PlanData>& plan, const NewWeights& weights,
               bool partial, const Reporter& reporter) {
  return Refitter(plan, weights, partial).run(reporter);
}

}  // namespace sinter::tools
