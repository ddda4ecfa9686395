// SPDX-License-Identifier: Apache-2.0
// JSON of schemas, as it is read and written here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <picojson.h>

namespace sinter::grammar {

using picojson::value;
using Members = picojson::object;

/// Throws Error(kUsage) for what is no JSON, or nested too deep.
value parsed(const std::string& text);

inline bool has(const Members& object, const std::string& key) { return object.count(key) > 0; }
inline const value& at(const Members& object, const std::string& key) { return object.at(key); }

/// Without white space, each character in its one spelling, numbers as short as they can be.
std::string json_text(const value& one);
std::string json_text(std::string_view text);

/// Types of values, as bits. A number that is no integer has kNumber alone, an integer both.
using Types = unsigned;
inline constexpr Types kNull = 1, kBoolean = 2, kInteger = 4, kNumber = 8, kString = 16,
                       kArray = 32, kObject = 64, kAllTypes = 127;
Types type_of(const value& one);
/// 0 for what is none.
Types type_named(std::string_view name);

}  // namespace sinter::grammar
