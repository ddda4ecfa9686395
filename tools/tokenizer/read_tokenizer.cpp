// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/format_error.h"
#include "tools/json/read_json.h"
#include "tools/tokenizer/models/read_model.h"
#include "tools/tokenizer/parts/fields.h"
#include "tools/tokenizer/tokenizer_data.h"

namespace sinter::tools {
namespace {

using Json = Fields::Json;

bool is_left(Fields& fields) {
  const auto direction = fields.get<std::string>("direction", "Right");
  if (direction != "Left" && direction != "Right")
    unsupported_part(fmt::format("the direction '{}' of {}", direction, fields.what()));
  return direction == "Left";
}

std::size_t count_of(Fields& fields, const char* key, std::int64_t otherwise) {
  const auto count = fields.get<std::int64_t>(key, otherwise);
  if (count < 0) throw usage_error("tokenizer: {} of {} is {}", key, fields.what(), count);
  return static_cast<std::size_t>(count);
}

std::optional<Truncation> truncation_of(const Json* section, const PostProcessors& around) {
  if (section == nullptr) return std::nullopt;
  Fields fields(*section, "truncation");
  Truncation result;
  result.from_left = is_left(fields);
  fields.at("max_length");
  result.tokens = count_of(fields, "max_length", 0);
  const auto strategy = fields.get<std::string>("strategy", "LongestFirst");
  if (strategy != "LongestFirst" && strategy != "OnlyFirst" && strategy != "OnlySecond")
    unsupported_part(fmt::format("the strategy '{}' of truncation", strategy));
  result.only_second = strategy == "OnlySecond";
  fields.skip({"stride"});  // concerns only the part that is cut off
  fields.finish();
  if (result.tokens < around.count(false))
    throw usage_error("tokenizer: truncation leaves {} tokens, and {} special ones are put around",
                      result.tokens, around.count(false));
  return result;
}

std::optional<Padding> padding_of(const Json* section) {
  if (section == nullptr) return std::nullopt;
  Fields fields(*section, "padding");
  Padding result;
  const Json* const strategy = fields.find("strategy");
  if (strategy != nullptr && strategy->is_object()) {
    Fields fixed(*strategy, "the strategy of padding");
    fixed.at("Fixed");
    result.tokens = count_of(fixed, "Fixed", 0);
    fixed.finish();
  } else if (strategy != nullptr && *strategy != "BatchLongest") {
    unsupported_part(fmt::format("the strategy {} of padding", strategy->dump()));
  }
  result.from_left = is_left(fields);
  result.multiple = count_of(fields, "pad_to_multiple_of", 0);
  constexpr std::size_t kMost = std::size_t{1} << 24;  // tokens
  if (std::max(result.tokens, result.multiple) > kMost)
    throw usage_error("tokenizer: padding to {} tokens", std::max(result.tokens, result.multiple));
  result.id = static_cast<TokenId>(count_of(fields, "pad_id", 0));
  fields.skip({"pad_type_id", "pad_token"});
  fields.finish();
  return result;
}

}  // namespace

std::optional<std::string_view> TokenizerData::text_of(TokenId id) const {
  if (const auto text = added.text_of(id)) return text;
  return model->vocabulary().name_of(id);
}

std::unique_ptr<TokenizerData> read_tokenizer(std::string_view text) {
  auto data = std::make_unique<TokenizerData>();
  try {
    const Json json = with_context("not a tokenizer.json",
                                   [&] { return read_json(text, "the file", kModelFileLimits); });
    Fields file(json, "the file");
    if (const auto version = file.get<std::string>("version", "1.0"); version != "1.0")
      unsupported_part(fmt::format("the version '{}' of tokenizer.json", version));
    data->normalizers.read(file.find("normalizer"));
    data->pre_tokenizers.read(file.find("pre_tokenizer"));
    data->model = read_model(file.at("model"));
    data->added.read(file.find("added_tokens"), *data->model, data->normalizers);
    data->post_processors.read(file.find("post_processor"));
    data->decoders.read(file.find("decoder"));
    data->truncation = truncation_of(file.find("truncation"), data->post_processors);
    data->padding = padding_of(file.find("padding"));
    file.finish();
  } catch (const Json::exception& error) {
    throw usage_error("not a tokenizer.json: {}", error.what());
  }
  return data;
}

}  // namespace sinter::tools
