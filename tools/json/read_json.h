// SPDX-License-Identifier: Apache-2.0
// The one reader of JSON that strangers write: bodies of requests, tokenizers, configurations.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sinter::tools {

/// What a text may have. All that is read later walks over values by calls of itself, so that depth
/// is bounded; a value takes more memory than its text.
struct JsonLimits {
  int depth = 64;                              // lists and objects in each other
  std::size_t values = std::size_t{1} << 20;   // texts, lists, objects and their keys
  std::size_t numbers = std::size_t{1} << 24;  // and true, false, null
};

/// Of files that come with a model: their values are vocabularies.
inline constexpr JsonLimits kModelFileLimits = {
    .depth = 128, .values = std::size_t{1} << 26, .numbers = std::size_t{1} << 26};

/// The value of `text`, in time and memory that grow as its bytes do. Throws Error(kUsage) that
/// begins with `what` for what is no JSON, goes beyond a limit, or names a key twice in an object.
nlohmann::json read_json(std::string_view text, std::string_view what,
                         const JsonLimits& limits = {});
/// The same, with keys in their order. Look-ups in it are linear.
nlohmann::ordered_json read_ordered_json(std::string_view text, std::string_view what,
                                         const JsonLimits& limits = {});
/// The member `key` of an object that read_json() has read, with its keys in their order; null if
/// it has none.
nlohmann::ordered_json read_ordered_member(std::string_view text, std::string_view key);

}  // namespace sinter::tools
