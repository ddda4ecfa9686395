// SPDX-License-Identifier: Apache-2.0
// What a client wants a text to be: structured output.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include <sinter/engine.h>

#include "tools/serve/api/request_fields.h"
#include "tools/serve/models/served_model.h"

namespace sinter::tools {

struct FieldConstraint {
  std::string field;  // that asks for it
  Constraint constraint;
};

/// Takes `response_format` as OpenAI's API has it, `structured_outputs` and the older `guided_*` of
/// vLLM. `text` is the body, for the order of a schema's properties. Throws ApiError (400) for what
/// is malformed or contradicts itself.
std::optional<FieldConstraint> take_constraint(RequestFields& fields, std::string_view text);

/// A call of one of the `tools`, spelled as `form` has it, or of that one which `choice` names:
/// `tool_choice` of "required" or {"type": "function", "function": {"name": ..}}.
FieldConstraint constraint_of_call(const nlohmann::json& tools, const nlohmann::json& choice,
                                   std::string_view text, const ToolForm& form);

/// The member `name` of the body, with its keys in their order. Throws ApiError (400) for a large
/// one.
nlohmann::ordered_json in_order(std::string_view body, const char* name,
                                const nlohmann::json& member);

/// Compiles `constraint` for the model's engine and puts it into `sampling`. Throws ApiError (400)
/// with the field's name.
void set_constraint(const FieldConstraint& constraint, const ServedModel& model,
                    SamplingParameters& sampling);

}  // namespace sinter::tools
