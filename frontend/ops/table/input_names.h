// SPDX-License-Identifier: Apache-2.0
// The inputs of operators by version, from the schemas of ONNX and ONNX Runtime.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sinter::frontend {

/// `names` are the inputs of operator `name` of `domain` from version `since` on, separated by
/// spaces: "A:T B:T axes xs..:V". A name with ".." stands for any number of inputs; inputs with the
/// same word after ":" share an element type.
struct InputNames {
  std::string_view domain, name;
  std::int64_t since;
  std::string_view names;
};

std::span<const InputNames> all_input_names();

struct OpInput {
  std::string_view name;
  std::string_view type = {};  // type parameter shared with other inputs, or empty
  bool is_variadic = false;
};
std::vector<OpInput> inputs_of(const InputNames& row);

/// The entry for `version`; null for an operator without a schema.
const InputNames* find_input_names(std::string_view domain, std::string_view name,
                                   std::int64_t version);

/// Whether two names are equal, ignoring ASCII case.
bool same_name(std::string_view a, std::string_view b);

}  // namespace sinter::frontend
