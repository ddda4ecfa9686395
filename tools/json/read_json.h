// SPDX-License-Identifier: Apache-2.0
// The only parser for untrusted JSON: request bodies, tokenizers, configurations.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sinter::tools {

/// Limits of a text. Later code recurses over values, so depth is bounded; a value takes more
/// memory than its text.
struct JsonLimits {
  int depth = 64;                              // maximum nesting of arrays and objects
  std::size_t values = std::size_t{1} << 20;   // strings, arrays, objects and their keys
  std::size_t numbers = std::size_t{1} << 24;  // includes true, false and null
};

/// For a model's files, which contain vocabularies.
inline constexpr JsonLimits kModelFileLimits = {
    .depth = 128, .values = std::size_t{1} << 26, .numbers = std::size_t{1} << 26};

/// For config.json, whose longest lists are labels of classes.
inline constexpr std::size_t kMostConfigBytes = std::size_t{8} << 20;
inline constexpr JsonLimits kConfigLimits = {
    .depth = 32, .values = std::size_t{1} << 18, .numbers = std::size_t{1} << 18};

/// Parses `text`, in time and memory linear in its size. Throws Error(kUsage) starting with `what`
/// for invalid JSON, exceeded limits, and duplicate keys.
nlohmann::json read_json(std::string_view text, std::string_view what,
                         const JsonLimits& limits = {});
/// The same with keys in their order. Lookups are linear.
nlohmann::ordered_json read_ordered_json(std::string_view text, std::string_view what,
                                         const JsonLimits& limits = {});
/// The member `key`, with its keys in order, of an object that read_json() has checked; null if
/// absent.
nlohmann::ordered_json read_ordered_member(std::string_view text, std::string_view key);

/// Reads a long list with little memory: calls `take` for each member of the outermost object, or
/// of its member `within`, and keeps none. Members are read as read_json() reads a text, so
/// `limits` are those of one; `take` sees keys that are there twice. Skips the member `skipped`.
/// False if there is no such object.
bool read_json_members(std::string_view text, std::string_view what, const JsonLimits& limits,
                       std::string_view within, std::string_view skipped,
                       const std::function<void(std::string key, nlohmann::json value)>& take);

}  // namespace sinter::tools
