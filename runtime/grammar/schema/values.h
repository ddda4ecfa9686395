// SPDX-License-Identifier: Apache-2.0
// Reads and writes the JSON of schemas.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <picojson.h>

namespace sinter::grammar {

using picojson::value;
using Members = picojson::object;

/// Throws Error(kUsage) for invalid JSON and for nesting beyond the limit.
value parsed(const std::string& text);

inline bool has(const Members& object, const std::string& key) { return object.count(key) > 0; }
inline const value& at(const Members& object, const std::string& key) { return object.at(key); }

/// Canonical text: no white space, one spelling of each character, the shortest numbers.
std::string json_text(const value& one);
std::string json_text(std::string_view text);

/// JSON types as bits. An integer has kInteger and kNumber, any other number kNumber only.
using Types = unsigned;
inline constexpr Types kNull = 1, kBoolean = 2, kInteger = 4, kNumber = 8, kString = 16,
                       kArray = 32, kObject = 64, kAllTypes = 127;
Types type_of(const value& one);
/// 0 for an unknown name.
Types type_named(std::string_view name);

}  // namespace sinter::grammar
