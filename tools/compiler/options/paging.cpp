// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/paging.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "fusion/paging/paged_states.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

struct Field {
  std::string_view name;
  std::int64_t PagingOptions::*value;
  std::int64_t most;
};
constexpr std::array kFields = {
    Field{"block", &PagingOptions::block_size, 256},
    Field{"sequences", &PagingOptions::max_sequences, 4096},
    Field{"step-tokens", &PagingOptions::max_step_tokens, 65536},
    Field{"positions", &PagingOptions::max_positions, 1 << 20},
    Field{"few-tokens", &PagingOptions::few_tokens, 1024},
    Field{"expert-counts", &PagingOptions::expert_counts, 1},
};

[[noreturn]] void refuse_paging(std::string_view part, std::string_view why) {
  throw usage_error(
      "serve: '{}' {}; write some of block=B, sequences=N, step-tokens=N, positions=N, "
      "few-tokens=N and expert-counts=1 divided by commas, for example block=32,sequences=64; or "
      "auto, on, off",
      part, why);
}

}  // namespace

fusion::PagingOptions to_fusion(const PagingOptions& paging) {
  return {paging.block_size, paging.max_sequences, paging.max_step_tokens, paging.max_positions,
          paging.expert_counts != 0};
}

std::vector<EntryLimits> entries_of(const PagingOptions& paging) {
  // Few tokens imply few samples and sequences.
  const auto entry = [&](const char* name, std::int64_t most) {
    const auto up_to = [](std::int64_t value) {
      ir::Range range;
      range.min = 1, range.max = value;
      return range;
    };
    namespace names = fusion::paged_names;
    return EntryLimits{name,
                       {{names::kTokens, up_to(most)},
                        {names::kSamples, up_to(most)},
                        {names::kStores, up_to(most)},
                        {names::kSequences, up_to(std::min(most, paging.max_sequences))}}};
  };
  const EntryLimits small =
      paging.few_tokens == 0 ? entry("one", 1) : entry("few", paging.few_tokens);
  return {small, entry("all", paging.max_step_tokens)};
}

std::string to_text(const PagingOptions& options) {
  std::string text;
  for (const Field& field : kFields)
    if (options.*field.value != 0)
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", field.name, options.*field.value);
  return text;
}

}  // namespace sinter::tools

namespace sinter {

PagingOptions parse_paging(std::string_view text) {
  PagingOptions options;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view part = text.substr(start, end - start);
    start = end + 1;
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals),
                           value = part.substr(std::min(equals + 1, part.size()));
    const auto* field = std::ranges::find(tools::kFields, name, &tools::Field::name);
    if (field == tools::kFields.end()) tools::refuse_paging(part, "is not known");
    std::int64_t number = 0;
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || rest != value.data() + value.size() || number < 1 ||
        number > field->most)
      tools::refuse_paging(part, fmt::format("is not a number from 1 to {}", field->most));
    options.*field->value = number;
  }
  if ((options.block_size & (options.block_size - 1)) != 0)
    tools::refuse_paging(text, "has blocks that are no power of two");
  if (options.max_step_tokens < options.max_sequences)
    tools::refuse_paging(text, "has steps of fewer tokens than sequences");
  if (options.few_tokens >= options.max_step_tokens)
    tools::refuse_paging(text, "has no steps of more than the few tokens");
  return options;
}

}  // namespace sinter
