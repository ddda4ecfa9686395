// The inputs that operators have, by version: what ONNX's and ONNX Runtime's schemas say.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sinter::frontend {

/// `names` are the inputs of `name` of `domain` from version `since` on, separated by spaces; one
/// that ends with ".." stands for any number.
struct InputNames {
  std::string_view domain, name;
  std::int64_t since;
  std::string_view names;
};

std::span<const InputNames> all_input_names();
/// What holds for `version`, or null for an operator without a schema.
const InputNames* find_input_names(std::string_view domain, std::string_view name,
                                   std::int64_t version);

}  // namespace sinter::frontend
