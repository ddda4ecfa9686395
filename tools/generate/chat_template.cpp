// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/chat_template.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <minja/minja.hpp>
#include <sstream>
#include <utility>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "runtime/sandbox/sandbox.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace {

/// "bos_token" of tokenizer_config.json: text, or an added token with "content".
std::string token_of(const nlohmann::ordered_json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object() && found->contains("content") && found->at("content").is_string())
    return found->at("content").get<std::string>();
  return "";
}

/// Of one template its text; of several by names that of "default". Empty: there is none.
std::string text_in(const nlohmann::ordered_json& config) {
  const auto found = config.find("chat_template");
  if (found != config.end() && found->is_string()) return found->get<std::string>();
  if (found != config.end() && found->is_array())
    for (const auto& one : *found)
      if (one.is_object() && one.value("name", "") == "default" && one.contains("template") &&
          one["template"].is_string())
        return one["template"].get<std::string>();
  return "";
}

/// Of an object of a file; null if there is no such file.
nlohmann::ordered_json config_in(const std::filesystem::path& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return nullptr;
  auto config = read_ordered_json(files::read_file(path.string()),
                                  fmt::format("'{}'", path.string()), kModelFileLimits);
  if (!config.is_object()) throw usage_error("'{}' is no JSON object", path.string());
  return config;
}

std::string time_as(const std::string& format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[256];
  return {text, std::strftime(text, sizeof text, format.c_str(), &local)};
}

std::shared_ptr<minja::TemplateNode> parsed(std::string_view text) {
  try {
    return minja::Parser::parse(
        std::string(text),
        {.trim_blocks = true, .lstrip_blocks = true, .keep_trailing_newline = false});
  } catch (const std::exception& error) {
    throw usage_error("the chat template is invalid: {}", error.what());
  }
}

/// `input`: what the template is given.
std::string rendered(minja::TemplateNode& root, const nlohmann::ordered_json& input) {
  try {
    const auto context = minja::Context::make(minja::Value(input));
    context->set("strftime_now",
                 minja::Value::callable([](const std::shared_ptr<minja::Context>&,
                                           minja::ArgumentsValue& arguments) -> minja::Value {
                   arguments.expectArgs("strftime_now", {1, 1}, {0, 0});
                   return time_as(arguments.args[0].get<std::string>());
                 }));
    return root.render(context);
  } catch (const std::exception& error) {
    // minja tells where it happened, in an exception of another type.
    if (std::string_view(error.what()).starts_with(std::bad_alloc().what()))
      throw usage_error("the chat template takes more memory than it may");
    throw usage_error("the chat template does not take these messages: {}", error.what());
  }
}

// A template comes with a model, and a model from anywhere: minja bounds nothing of what it does.
constexpr sandbox::Task kTask = {
    .name = "the chat template",
    .verb = "applied to these messages",
    .prepare = [](std::string_view text) -> std::shared_ptr<void> { return parsed(text); },
    .run =
        [](void* root, std::string_view input) {
          return rendered(*static_cast<minja::TemplateNode*>(root),
                          read_ordered_json(input, "the input"));
        }};
constexpr sandbox::Limits kLimits = {.seconds = 0.5,
                                     .prepare_seconds = 1,
                                     .bytes = std::size_t{192} << 20,
                                     .answer_bytes = std::size_t{32} << 20};

}  // namespace

struct ChatTemplate::Impl {
  // One of both: without a sandbox templates are the user's own.
  std::unique_ptr<sandbox::Worker> worker;
  std::shared_ptr<minja::TemplateNode> root;
  std::string text, bos_token, eos_token;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

ChatTemplate ChatTemplate::load(const std::string& path) {
  std::ifstream file = files::open_stream(path);
  std::ostringstream text;
  if (!(text << file.rdbuf())) throw usage_error("'{}' has no chat template: it is empty", path);
  if (!path.ends_with(".json")) return parse(text.str(), "", "");
  const auto config = read_ordered_json(text.str(), fmt::format("'{}'", path), kModelFileLimits);
  if (!config.is_object()) throw usage_error("'{}' is no JSON object", path);
  const std::string found = text_in(config);
  if (found.empty()) throw usage_error("'{}' has no 'chat_template'", path);
  return parse(found, token_of(config, "bos_token"), token_of(config, "eos_token"));
}

std::optional<ChatTemplate> ChatTemplate::beside(const std::string& tokenizer) {
  if (tokenizer.empty()) return std::nullopt;
  const auto path = [&](const char* name) {
    return std::filesystem::path(tokenizer).replace_filename(name);
  };
  const nlohmann::ordered_json config = config_in(path("tokenizer_config.json"));
  std::string text;
  std::error_code none;
  if (const auto own = path("chat_template.jinja"); std::filesystem::is_regular_file(own, none))
    text = files::read_file(own.string());
  if (text.empty())
    if (const auto own = config_in(path("chat_template.json")); own.is_object())
      text = text_in(own);
  if (text.empty() && config.is_object()) text = text_in(config);
  if (text.empty()) return std::nullopt;
  std::string tokens[2];
  for (const auto& source : {config, config_in(path("special_tokens_map.json"))})
    for (int i = 0; i < 2; ++i)
      if (source.is_object() && tokens[i].empty())
        tokens[i] = token_of(source, i == 0 ? "bos_token" : "eos_token");
  return parse(text, tokens[0], tokens[1]);
}

ChatTemplate ChatTemplate::parse(const std::string& text, std::string bos_token,
                                 std::string eos_token) {
  auto impl = std::make_unique<Impl>();
  if (sandbox::is_started())
    impl->worker = std::make_unique<sandbox::Worker>(kTask, text, kLimits);
  else
    impl->root = parsed(text);
  impl->text = text;
  impl->bos_token = std::move(bos_token);
  impl->eos_token = std::move(eos_token);
  return ChatTemplate(std::move(impl));
}

const std::string& ChatTemplate::text() const { return impl_->text; }

std::string ChatTemplate::apply(const nlohmann::ordered_json& messages,
                                const nlohmann::ordered_json& tools, bool asks) const {
  const nlohmann::ordered_json input = {{"messages", messages},
                                        {"tools", tools},
                                        {"add_generation_prompt", asks},
                                        {"bos_token", impl_->bos_token},
                                        {"eos_token", impl_->eos_token}};
  if (impl_->root) return rendered(*impl_->root, input);
  return impl_->worker->run(
      input.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace sinter::tools
