// SPDX-License-Identifier: Apache-2.0
// Plans as they are changed field by field, with right hashes, and what bounds their runs: for the
// fuzzers that run them.
//
// Mutations know the schema (plan_fields.py): a scalar becomes an edge value or a neighbour's, a
// list longer or shorter, an optional table comes or goes, a step does another step's work, a
// number in a text another one.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <sinter/allocator.h>
#include <sinter/error.h>

#include "plan_fields.h"
#include "runtime/plan/file_header.h"
#include "runtime/plan/operators/operator_def.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan/verify/verify_plan.h"

namespace sinter::fuzz {

using plan::FileHeader;

/// Walks a plan; at the sites whose numbers are `chosen`, in rising order, it changes what is
/// there.
class Mutator {
 public:
  Mutator(std::mt19937_64& random, std::vector<std::uint64_t> chosen)
      : random_(random), chosen_(std::move(chosen)) {}

  std::uint64_t sites() const { return site_; }

  template <typename T>
  void scalar(T& value) {
    if (is_here()) value = other(value);
    if constexpr (std::is_integral_v<T>) last_ = static_cast<std::int64_t>(value);
  }
  void text(std::string& value) {
    if (!is_here()) return;
    if (random_() % 2 == 0 && change_number(value)) return;
    const std::string all[] = {"",         std::string(300, 'x'), "\x1b[31m",
                               "\xff\xfe", value + value,         "cpu"};
    value = all[random_() % std::size(all)];
  }
  template <typename T>
  void list(std::vector<T>& values) {
    if (is_here())
      resize(values,
             [&] { return other(values.empty() ? T{} : values[random_() % values.size()]); });
    for (T& value : values) scalar(value);
  }
  void texts(std::vector<std::string>& values) {
    if (is_here()) resize(values, [] { return std::string("more"); });
    for (std::string& value : values) text(value);
  }
  template <typename T>
  void structs(std::vector<T>& values) {
    if (is_here())
      resize(values, [&] { return values.empty() ? T{} : values[random_() % values.size()]; });
    for (T& value : values) visit(value, *this);
  }
  template <typename T>
  void tables(std::vector<std::unique_ptr<T>>& values) {
    if (is_here() && !values.empty())
      resize(values, [&] { return std::make_unique<T>(*values[random_() % values.size()]); });
    for (std::unique_ptr<T>& value : values) visit(*value, *this);
  }
  template <typename T>
  void optional(std::unique_ptr<T>& value) {
    if (is_here()) value = value ? nullptr : std::make_unique<T>();
    if (value) visit(*value, *this);
  }
  template <typename T>
  void required(std::unique_ptr<T>& value) {
    visit(*value, *this);
  }
  void choice(fb::WorkUnion& work) {
    if (is_here()) swap_work(work);
    if (!seen_ || random_() % 4 == 0) seen_ = work;
    visit(work, *this);
  }

 private:
  bool is_here() {
    const std::uint64_t site = site_++;
    if (next_ == chosen_.size() || chosen_[next_] != site) return false;
    ++next_;
    return true;
  }

  /// One of the numbers in it becomes another; false: it has none.
  bool change_number(std::string& value) {
    std::vector<std::size_t> starts;
    for (std::size_t i = 0; i < value.size(); ++i)
      if (is_digit(value[i]) && (i == 0 || !is_digit(value[i - 1]))) starts.push_back(i);
    if (starts.empty()) return false;
    const std::size_t start = starts[random_() % starts.size()];
    std::size_t end = start;
    while (end < value.size() && is_digit(value[end])) ++end;
    const auto number = static_cast<std::int64_t>(std::strtoll(value.c_str() + start, nullptr, 10));
    value.replace(start, end - start, std::to_string(other(number)));
    return true;
  }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  template <typename T>
  T other(T value) {
    if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(other(static_cast<std::underlying_type_t<T>>(value)));
    } else if constexpr (std::is_same_v<T, bool>) {
      return !value;
    } else if constexpr (std::is_floating_point_v<T>) {
      const T all[] = {0,
                       -1,
                       std::numeric_limits<T>::infinity(),
                       std::numeric_limits<T>::quiet_NaN(),
                       std::numeric_limits<T>::max(),
                       -value};
      return all[random_() % std::size(all)];
    } else {
      using U = std::make_unsigned_t<T>;
      const T all[] = {0,
                       1,
                       2,
                       3,
                       4,
                       7,
                       16,
                       static_cast<T>(-1),
                       static_cast<T>(-2),
                       std::numeric_limits<T>::max(),
                       std::numeric_limits<T>::min(),
                       static_cast<T>(U{1} << (8 * sizeof(T) - 2)),
                       static_cast<T>(U(value) + 1),
                       static_cast<T>(U(value) - 1),
                       static_cast<T>(U(value) * 2),
                       static_cast<T>(last_),
                       static_cast<T>(random_() % 64),
                       static_cast<T>(random_())};
      return all[random_() % std::size(all)];
    }
  }

  template <typename T, typename Make>
  void resize(std::vector<T>& values, const Make& make) {
    switch (random_() % 6) {
      case 0: values.clear(); break;
      case 1:
        if (!values.empty()) values.pop_back();
        break;
      case 2:
        if (values.size() > 1)
          std::swap(values[random_() % values.size()], values[random_() % values.size()]);
        break;
      case 3:
        for (int i = 0; i < 40; ++i) values.push_back(make());
        break;
      default:
        values.insert(values.begin() + static_cast<std::ptrdiff_t>(random_() % (values.size() + 1)),
                      make());
    }
  }

  void swap_work(fb::WorkUnion& work) {
    switch (random_() % 12) {
      case 0: work.Reset(); break;
      case 1: work.Set(fb::CopyStepT{}); break;
      case 2: work.Set(fb::TacticStepT{}); break;
      case 3: work.Set(fb::WhileStepT{}); break;
      case 4: work.Set(fb::IfStepT{}); break;
      case 5: work.Set(fb::ExtentStepT{}); break;
      case 6: work.Set(fb::HostStepT{}); break;
      case 7:
      case 8:
      case 9: work.Set(some_call()); break;
      default:
        if (seen_) work = *seen_;
    }
  }

  /// One of the runtime's operators, with as many operands as it has.
  fb::OperatorStepT some_call() {
    const auto all = plan::operators();
    const plan::OperatorDef& def = *all[random_() % all.size()];
    fb::OperatorStepT call;
    call.operator_name = def.name;
    const auto add = [&](const plan::OperandDef& operand, auto& to) {
      auto tensor = std::make_unique<fb::HostTensorT>();
      tensor->buffer = static_cast<std::uint32_t>(random_() % 8);
      for (std::size_t d = 0; d < plan::rank_of(operand.shape); ++d)
        tensor->shape.push_back(static_cast<std::uint32_t>(random_() % 8));
      to.push_back(std::move(tensor));
    };
    for (const auto& input : def.inputs) add(input, call.inputs);
    for (const auto& output : def.outputs) add(output, call.outputs);
    for (const auto& attribute : def.attributes) {
      auto& made = call.attributes.emplace_back(std::make_unique<fb::HostAttributeT>());
      made->name = attribute.name;
      made->is_float = attribute.is_float;
    }
    return call;
  }

  std::mt19937_64& random_;
  std::vector<std::uint64_t> chosen_;
  std::size_t next_ = 0;
  std::uint64_t site_ = 0;
  std::int64_t last_ = 0;
  std::optional<fb::WorkUnion> seen_;
};

/// The parts of a file whose tables can be read, checked or not.
inline std::optional<plan::PlanParts> parts_of(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(FileHeader)) return std::nullopt;
  FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  const auto section = [&](plan::Section which) -> std::span<const std::byte> {
    const auto& of = header.sections[static_cast<int>(which)];
    if (of.offset > bytes.size() || of.size > bytes.size() - of.offset) return {};
    return bytes.subspan(of.offset, of.size);
  };
  const auto metadata = section(plan::Section::kMetadata);
  std::vector<std::uint8_t> aligned(metadata.size());
  if (metadata.empty()) return std::nullopt;
  std::memcpy(aligned.data(), metadata.data(), metadata.size());
  flatbuffers::Verifier verifier(aligned.data(), aligned.size());
  if (!fb::VerifyPlanBuffer(verifier)) return std::nullopt;
  const fb::Plan& root = *fb::GetPlan(aligned.data());
  try {
    plan::verify_packed_size(root, aligned.size());
  } catch (const Error&) {
    return std::nullopt;
  }
  plan::PlanParts parts;
  root.UnPackTo(&parts.meta);
  const auto add = [&](std::vector<plan::PlanParts::Piece>& pieces, plan::Section which) {
    if (const auto found = section(which); !found.empty()) pieces.emplace_back(0, found, nullptr);
  };
  add(parts.weights, plan::Section::kWeights);
  add(parts.modules, plan::Section::kModules);
  add(parts.sources, plan::Section::kSources);
  return parts;
}

/// Host memory up to a bound.
class Bounded final : public Allocator {
 public:
  void* allocate(Memory, int, std::size_t bytes, std::size_t alignment) noexcept override {
    if (bytes > (std::size_t{64} << 20)) return nullptr;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  void deallocate(void* data, Memory, int, std::size_t, std::size_t) noexcept override {
    std::free(data);
  }
};

inline constexpr std::int64_t kMostIterations = 100;  // of all loops of a run

/// Visits of elements and multiplications that the steps take for these sizes, roughly.
inline double work_of_step(const fb::StepT& step, const std::vector<std::int64_t>& values) {
  const auto product = [&](const auto& sizes) {
    double result = 1;
    // Loops around an empty one are walked, too.
    for (const auto size : sizes) result *= std::max(1.0, static_cast<double>(values[size]));
    return result;
  };
  double total = 0;
  if (const auto* loop = step.work.AsLoopStep())
    total += product(loop->program->extents) * static_cast<double>(loop->program->instrs.size());
  if (const auto* matmul = step.work.AsMatmulStep())
    total += product(std::vector{matmul->m, matmul->n, matmul->k}) * product(matmul->batch);
  if (const auto* conv = step.work.AsConvStep())
    total += product(conv->output_shape) * product(conv->weight_shape);
  if (const auto* call = step.work.AsOperatorStep())
    for (const auto& input : call->inputs) {
      double longest = 8;
      for (const auto size : input->shape)
        longest = std::max(longest, static_cast<double>(values[size]));
      total += 8 * longest * product(input->shape);  // each with all of its row
    }
  if (const auto* attention = step.work.AsAttentionStep())
    total += product(std::vector{attention->rows, attention->keys}) * product(attention->batch) *
             static_cast<double>(attention->head + attention->value_head);
  return total;
}

inline double work_of(const fb::PlanT& meta, const std::vector<std::int64_t>& values) {
  double total = 0;
  std::size_t loop_ends = 0;
  for (std::size_t i = 0; i < meta.steps.size(); ++i) {
    const double times = i < loop_ends ? static_cast<double>(kMostIterations) : 1;
    total += times * work_of_step(*meta.steps[i], values);
    if (const auto* loop = meta.steps[i]->work.AsWhileStep())
      loop_ends = std::max(loop_ends, i + 1 + loop->steps);
  }
  return total;
}

/// libFuzzer's custom mutator: one to three fields of the plan in `data` become others, of its
/// bindings, symbols and sizes as often as of its steps, which have most fields.
inline std::size_t mutate_plan(std::uint8_t* data, std::size_t size, std::size_t max_size,
                               unsigned int seed) {
  auto parts = parts_of({reinterpret_cast<const std::byte*>(data), size});
  if (!parts) return size;
  std::mt19937_64 random(seed);
  const auto sites_of = [&] {
    Mutator counter(random, {});
    visit(parts->meta, counter);
    return counter.sites();
  };
  const std::uint64_t all = sites_of();
  auto steps = std::exchange(parts->meta.steps, {});
  const std::uint64_t others = sites_of();
  parts->meta.steps = std::move(steps);
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t i = 0; i <= random() % 3; ++i) {
    std::uint64_t site = random() % (random() % 2 == 0 ? others : all);
    chosen.push_back(site);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  Mutator mutator(random, std::move(chosen));
  visit(parts->meta, mutator);
  const auto bytes = plan::serialize_plan(*parts);
  if (bytes.size() > max_size) return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

}  // namespace sinter::fuzz
