// SPDX-License-Identifier: Apache-2.0
// The inputs that operators have, by version: what ONNX's and ONNX Runtime's schemas say.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sinter::frontend {

/// `names` are the inputs of `name` of `domain` from version `since` on, separated by spaces, as
/// "A:T B:T axes xs..:V": one that ends with ".." stands for any number, and those with one word
/// behind a colon have one element type.
struct InputNames {
  std::string_view domain, name;
  std::int64_t since;
  std::string_view names;
};

std::span<const InputNames> all_input_names();

struct OpInput {
  std::string_view name;
  std::string_view type = {};  // what it shares with other inputs, or empty
  bool is_variadic = false;
};
std::vector<OpInput> inputs_of(const InputNames& row);

/// What holds for `version`, or null for an operator without a schema.
const InputNames* find_input_names(std::string_view domain, std::string_view name,
                                   std::int64_t version);

/// Whether two names are one but for the case of ASCII letters.
bool same_name(std::string_view a, std::string_view b);

}  // namespace sinter::frontend
