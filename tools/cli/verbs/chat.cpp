// SPDX-License-Identifier: Apache-2.0
// A conversation: `sinter chat`.
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include <unistd.h>

#include "ir/text/shown.h"
#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "runtime/sandbox/sandbox.h"
#include "tools/cli/line_editor.h"
#include "tools/cli/machine.h"
#include "tools/cli/session_options.h"
#include "tools/cli/signature_option.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/generate_text.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/generate/chat_template.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kContext = 4096;
constexpr const char* kCommands =
    "/system TEXT  what stands in front of the conversation (nothing: no such text)\n"
    "/reset        begin anew\n"
    "/save FILE    write the conversation as JSON\n"
    "/load FILE    go on with one\n"
    "/help         this\n"
    "/exit         end, as Ctrl-D does; Ctrl-C ends an answer";

/// A conversation's messages; their tokens are in the caches.
class Conversation {
 public:
  Conversation(TextGenerator& generator, const Tokenizer& tokenizer, ChatTemplate chat)
      : generator_(generator), tokenizer_(tokenizer), template_(std::move(chat)) {}

  /// What stands in front of the other messages; empty: nothing.
  void set_system(const std::string& text) {
    system_ = text;
    if (!messages_.empty() && messages_[0]["role"] == "system") messages_.erase(0);
    if (!text.empty())
      messages_.insert(messages_.begin(), ordered_json{{"role", "system"}, {"content", text}});
  }
  void reset() {
    messages_ = ordered_json::array();
    set_system(system_);
  }

  void save(const std::string& path) const {
    const ordered_json file = {{"messages", messages_}};
    files::write_file(path, file.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n",
                      {.what = "the conversation"});
  }
  /// An object with "messages", or an array of them.
  void load(const std::string& path) {
    const ordered_json file = read_ordered_json(files::read_file(path), fmt::format("'{}'", path));
    const ordered_json& messages =
        file.is_object() && file.contains("messages") ? file["messages"] : file;
    const auto is_message = [](const ordered_json& message) {
      const auto is_text = [&](const char* key) {
        return message.contains(key) && message[key].is_string();
      };
      return message.is_object() && is_text("role") && is_text("content");
    };
    if (!messages.is_array() || !std::ranges::all_of(messages, is_message))
      throw usage_error("'{}' has no conversation: a list of {{\"role\", \"content\"}}", path);
    messages_ = messages;
    system_ = !messages.empty() && messages[0]["role"] == "system"
                  ? messages[0]["content"].get<std::string>()
                  : "";
  }
  std::size_t size() const { return messages_.size(); }

  /// Generates and streams the answer to `text`. Tokens in the caches are not computed again. A
  /// text that cannot be answered is forgotten.
  ordered_json answer(const std::string& text, const Console& console) {
    say("user", text);
    try {
      return answer_last(console);
    } catch (...) {
      messages_.erase(messages_.size() - 1);
      throw;
    }
  }

 private:
  ordered_json answer_last(const Console& console) {
    const auto ids = tokenizer_.encode(template_.apply(messages_, nullptr), false);
    if (std::ssize(ids) >= generator_.capacity())
      throw usage_error(
          "the conversation has {} tokens, and the caches hold {}: begin another (/reset), or give "
          "a larger --context",
          ids.size(), generator_.capacity());
    Stream stream(console, &tokenizer_);
    const Generated result = generator_.generate(ids, stream);
    const std::string said = tokenizer_.decode(result.tokens, true);
    say("assistant", said);
    return {{"prompt_tokens", ids.size()},     {"cached_tokens", result.cached_tokens},
            {"tokens", result.tokens},         {"text", said},
            {"stopped_by", result.stopped_by}, {"first_token_us", result.first_us}};
  }
  void say(const char* role, const std::string& content) {
    messages_.push_back({{"role", role}, {"content", content}});
  }

  TextGenerator& generator_;
  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  std::string system_;
  ordered_json messages_ = ordered_json::array();
};

/// Obeys a line that begins with a slash. False: the conversation is to end.
bool obey(std::string_view line, Conversation& conversation, const Console& console) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::string_view command = line.substr(0, space);
  std::string value(line.substr(space));
  value.erase(0, std::min(value.find_first_not_of(' '), value.size()));
  const auto file = [&] {
    if (value.empty()) throw usage_error("{} needs a file: {} FILE", command, command);
    return value;
  };
  if (command == "/exit" || command == "/quit") return false;
  if (command == "/help") {
    console.note(kCommands);
  } else if (command == "/reset") {
    conversation.reset();
    console.note("the conversation begins anew");
  } else if (command == "/system") {
    conversation.set_system(value);
  } else if (command == "/save") {
    conversation.save(file());
    console.note(fmt::format("{} messages are in {}", conversation.size(), ir::shown(value)));
  } else if (command == "/load") {
    conversation.load(file());
    console.note(fmt::format("{} messages", conversation.size()));
  } else {
    throw usage_error("there is no command '{}': /help lists them", command);
  }
  return true;
}

int run_chat(GenerateArguments options, const Console& console) {
  const OpenModel model = open_model(options.plan, options.model, options.load, console);
  if (options.tokenizer.empty()) options.tokenizer = model.tokenizer;
  if (options.tokenizer.empty())
    throw usage_error("'{}' brings no tokenizer: give --tokenizer tokenizer.json", options.plan);
  if (model.encoder)
    throw usage_error(
        "'{}' reads texts by an encoder, and holds no conversation: `sinter generate`",
        options.plan);
  const auto tokenizer = Tokenizer::load(options.tokenizer);
  read_generation_config(options, console);
  auto chat = options.chat_template.empty() ? ChatTemplate::beside(options.tokenizer)
                                            : ChatTemplate::load(options.chat_template);
  if (!chat)
    throw usage_error(
        "there is no chat template beside '{}': give --chat-template, or go on with texts of your "
        "own by `sinter generate`",
        options.tokenizer);
  create_context(model.plan, options.session.device);
  TextGenerator generator(options, model.plan, 0, stop_ids(options.prompt, &tokenizer), &tokenizer);
  Conversation conversation(generator, tokenizer, std::move(*chat));
  conversation.set_system(options.system);
  const bool asks = isatty(STDIN_FILENO) != 0 && !console.json;
  if (asks) console.note("/help lists commands; Ctrl-C ends an answer, Ctrl-D the conversation");
  LineEditor lines(std::cin, asks);
  const Interrupts interrupts(asks);
  ordered_json turns = ordered_json::array();
  bool is_interrupted = false;
  for (std::string line;;) {
    Interrupts::reset();
    const auto outcome = lines.read("> ", line);
    if (outcome == LineEditor::Outcome::kEnd) break;
    if (outcome == LineEditor::Outcome::kInterrupted || line.empty()) continue;
    try {
      if (line[0] == '/') {
        if (!obey(line, conversation, console)) break;
        continue;
      }
      turns.push_back(conversation.answer(line, console));
    } catch (const Error& error) {
      // A person goes on; a program is told.
      if (!asks) throw;
      console.error(error.code(), error.what());
      continue;
    }
    const auto& turn = turns.back();
    console.note(fmt::format("{} tokens, {} of the prompt's {} in the caches; first after {}",
                             turn["tokens"].size(), turn["cached_tokens"].get<std::uint64_t>(),
                             turn["prompt_tokens"].get<std::size_t>(),
                             format_time(turn["first_token_us"].get<double>())));
    is_interrupted = !asks && turn["stopped_by"] == "interrupt";
    if (is_interrupted) break;
  }
  console.result({{"plan", options.plan}, {"turns", std::move(turns)}});
  constexpr int kInterruptedExit = 128 + SIGINT;
  return is_interrupted ? kInterruptedExit : 0;
}

}  // namespace

void add_chat(Cli& cli) {
  auto options = std::make_shared<GenerateArguments>();
  options->max_tokens = options->context = kContext;
  auto* verb = cli.app.add_subcommand(
      "chat", "Hold a conversation with a model: lines of standard input, and their answers");
  verb->add_option("model", options->plan, kModelHelp)->required();
  verb->group("Conversation");
  verb->add_option("--system TEXT", options->system, "What stands in front of the conversation");
  verb->add_option("--tokenizer FILE", options->tokenizer, "tokenizer.json (default: the model's)");
  verb->add_option("--chat-template FILE", options->chat_template,
                   "tokenizer_config.json, or a Jinja file (default: the model's)");
  add_text_options(*verb, *options);
  verb->group("Where texts end");
  verb->add_option("--context N", options->context, "Most tokens of the conversation")
      ->capture_default_str()
      ->check_positive();
  add_session_options(*verb, options->session);
  add_signature_option(*verb, options->load);
  verb->add_weight_budget(options->session.weight_budget);
  verb->add_threads_option();
  add_model_options(*verb, options->model);
  verb->example("sinter chat model_folder");
  verb->example("sinter chat model.gguf --system \"Be short.\" --temperature 0.7");
  verb->callback([options, &cli] {
    sandbox::start();  // before any thread exists
    cli.exit_code = run_chat(*options, cli.console);
  });
}

}  // namespace sinter::tools
