// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/constraint_fields.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tools/json/read_json.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/limits.h"

namespace sinter::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Kind = Constraint::Kind;

}  // namespace

ordered_json in_order(std::string_view body, const char* name, const json& member) {
  if (member.dump(-1, ' ', false, json::error_handler_t::replace).size() > kMostConstraintBytes)
    RequestFields::fail(name, fmt::format("has more than {} bytes", kMostConstraintBytes));
  return read_ordered_member(body, name);
}

namespace {

std::string text_of(const std::string& field, const json& value) {
  if (!value.is_string() || value.get<std::string>().empty())
    RequestFields::fail(field, "is no text, or an empty one");
  return value.get<std::string>();
}

/// A schema as an object, or as the text of one.
std::string schema_of(const std::string& field, const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object() && !value.is_boolean())
    RequestFields::fail(field, "is no JSON schema: expected an object");
  return dump(value);
}

std::vector<std::string> choices_of(const std::string& field, const json& value) {
  if (!value.is_array() || value.empty()) RequestFields::fail(field, "is no list of texts");
  if (value.size() > kMostChoices)
    RequestFields::fail(field, fmt::format("has {} texts: {} at most", value.size(), kMostChoices));
  std::vector<std::string> choices;
  for (const json& choice : value) choices.push_back(text_of(field, choice));
  return choices;
}

std::optional<FieldConstraint> take_response_format(RequestFields& fields, std::string_view text) {
  constexpr const char* kName = "response_format";
  const json* format = fields.take(kName);
  if (format == nullptr) return std::nullopt;
  if (!format->is_object()) RequestFields::fail(kName, "is no object");
  RequestFields own(*format);
  const json* type = own.take("type");
  if (type == nullptr) RequestFields::fail(kName, "has no 'type'");
  if (*type == "text" || *type == "json_object") {
    own.finish();
    if (*type == "text") return std::nullopt;
    return FieldConstraint{kName, {Kind::kJsonObject, {}, {}}};
  }
  if (*type != "json_schema")
    RequestFields::fail(kName, "has a 'type' that is none of text, json_object and json_schema");
  const json* wrapped = own.take("json_schema");
  own.finish();
  if (wrapped == nullptr || !wrapped->is_object() || !wrapped->contains("schema"))
    RequestFields::fail(kName, "has no 'json_schema' with a 'schema' in it");
  RequestFields named(*wrapped);
  // Names and descriptions are for who reads; what is not strict is held to the schema, too.
  for (const char* name : {"name", "description", "schema"}) named.take(name);
  named.flag("strict");
  named.finish();
  const ordered_json ordered = in_order(text, kName, *format);
  return FieldConstraint{
      kName, {Kind::kJsonSchema, schema_of(kName, ordered.at("json_schema").at("schema")), {}}};
}

/// One of the forms of `structured_outputs`, and of `guided_*`.
std::optional<FieldConstraint> take_form(RequestFields& fields, const char* name,
                                         const std::string& field, Kind kind,
                                         const ordered_json& ordered) {
  const json* value = fields.take(name);
  if (value == nullptr) return std::nullopt;
  switch (kind) {
    case Kind::kJsonObject:
      if (!value->is_boolean()) RequestFields::fail(field, "is neither true nor false");
      if (!value->get<bool>()) return std::nullopt;
      return FieldConstraint{field, {kind, {}, {}}};
    case Kind::kJsonSchema: return FieldConstraint{field, {kind, schema_of(field, ordered), {}}};
    case Kind::kChoice: return FieldConstraint{field, {kind, {}, choices_of(field, *value)}};
    default: return FieldConstraint{field, {kind, text_of(field, *value), {}}};
  }
}

}  // namespace

std::optional<FieldConstraint> take_constraint(RequestFields& fields, std::string_view text) {
  std::vector<FieldConstraint> all;
  const auto add = [&](std::optional<FieldConstraint> one) {
    if (one) all.push_back(std::move(*one));
  };
  add(take_response_format(fields, text));
  if (const json* structured = fields.take("structured_outputs")) {
    if (!structured->is_object()) RequestFields::fail("structured_outputs", "is no object");
    const ordered_json ordered = in_order(text, "structured_outputs", *structured);
    RequestFields own(*structured);
    for (const auto& [name, kind] :
         {std::pair("json", Kind::kJsonSchema), std::pair("regex", Kind::kRegex),
          std::pair("choice", Kind::kChoice), std::pair("grammar", Kind::kGrammar),
          std::pair("json_object", Kind::kJsonObject)})
      add(take_form(own, name, fmt::format("structured_outputs.{}", name), kind,
                    ordered.value(name, ordered_json())));
    own.finish();
  }
  for (const auto& [name, kind] :
       {std::pair("guided_json", Kind::kJsonSchema), std::pair("guided_regex", Kind::kRegex),
        std::pair("guided_choice", Kind::kChoice), std::pair("guided_grammar", Kind::kGrammar)}) {
    const json* value = fields.take(name);
    const bool is_schema = value != nullptr && kind == Kind::kJsonSchema;
    add(take_form(fields, name, name, kind,
                  is_schema ? in_order(text, name, *value) : ordered_json()));
  }
  if (all.size() > 1)
    RequestFields::fail(all[1].field, fmt::format("contradicts '{}'", all[0].field));
  if (all.empty()) return std::nullopt;
  return std::move(all.front());
}

FieldConstraint constraint_of_call(const json& tools, const json& choice, std::string_view text,
                                   const ToolForm& form) {
  std::string wanted;
  if (choice.is_object()) {
    const auto function = choice.find("function");
    if (choice.value("type", json()) != "function" || function == choice.end() ||
        !function->is_object() || !function->contains("name") || !(*function)["name"].is_string())
      RequestFields::fail("tool_choice", "names no function");
    wanted = (*function)["name"].get<std::string>();
  }
  ordered_json calls = ordered_json::array();
  for (const ordered_json& tool : in_order(text, "tools", tools)) {
    const auto function = tool.find("function");
    if (function == tool.end() || !function->is_object() || !function->contains("name") ||
        !(*function)["name"].is_string())
      RequestFields::fail("tools", "has one without a function's name");
    const auto name = (*function)["name"].get<std::string>();
    if (!wanted.empty() && name != wanted) continue;
    calls.push_back(form.format(name, function->value("parameters", ordered_json())));
  }
  if (calls.empty())
    RequestFields::fail("tool_choice", wanted.empty()
                                           ? "asks for a call, and there are no 'tools'"
                                           : fmt::format("names '{}', which is no tool", wanted));
  const ordered_json tag = {{"type", "structural_tag"},
                            {"format", {{"type", "or"}, {"elements", std::move(calls)}}}};
  return {"tools", {Kind::kStructuralTag, dump(tag), {}}};
}

void set_constraint(const FieldConstraint& constraint, const ServedModel& model,
                    SamplingParameters& sampling) {
  if (model.tokenizer() == nullptr)
    RequestFields::fail(constraint.field, fmt::format("needs text, and '{}' is served without a "
                                                      "tokenizer",
                                                      model.name()));
  sampling.constraint = constraint.constraint;
  try {
    model.engine()->prepare(sampling);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    RequestFields::fail(constraint.field, fmt::format("cannot be had: {}", error.what()));
  }
}

}  // namespace sinter::tools
