// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>
#include <sinter/sinter.h>

#include "ir/text/shown.h"
#include "ir/text/similar.h"
#include "runtime/current_error.h"
#include "runtime/sandbox/sandbox.h"
#include "tools/cli/console.h"
#include "tools/cli/help/help_text.h"
#include "tools/cli/options.h"
#include "tools/cli/signals.h"
#include "tools/cli/trtexec.h"
#include "tools/cli/verbs/verbs.h"

namespace sinter::tools {
namespace {

constexpr int kInternalError = 70;
constexpr int kInterrupted = 130;

int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage: return 2;
    case ErrorCode::kUnsupported: return 3;
    case ErrorCode::kInvalidModel: return 4;
    case ErrorCode::kInvalidPlan: return 5;
    case ErrorCode::kOutOfMemory: return 6;
    case ErrorCode::kDevice: return 7;
    case ErrorCode::kInternal: return kInternalError;
    case ErrorCode::kCancelled: return kInterrupted;
  }
  return kInternalError;
}

/// Searches the raw arguments: CLI11 does not parse options after a refused one.
bool asks_for_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* word) { return std::string_view(word) == "--json"; });
}

constexpr const char* kEnd = R"(
`sinter VERB --help` says what a verb takes, `sinter help TOPIC` shows a page.
The Python package's command (python -m pysinter) also has triton.

Exit codes: 0 done, 1 a comparison failed, 2 usage, 3 unsupported model,
4 invalid model, 5 invalid plan, 6 out of memory, 7 device, 70 a defect of
Sinter, 130 interrupted.
)";

/// Formats --help in groups, 80 columns wide.
class HelpFormatter : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(const Command& root) : root_(root) {}

  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    const VerbHelp general = general_help(root_);
    const std::vector<VerbHelp> verbs = verbs_of(root_);
    const auto verb = std::ranges::find(verbs, app->get_name(), &VerbHelp::name);
    return verb == verbs.end() ? help_text(general, verbs, kEnd) : help_text(*verb, general);
  }

 private:
  const Command& root_;
};

/// Why the arguments were refused, with a suggestion if possible; empty: CLI11's message suffices.
std::string refusal_of(const CLI::App& app, const Command& root, int argc, char** argv) {
  const std::vector<VerbHelp> verbs = verbs_of(root);
  const auto* first = std::find_if(argv + 1, argv + argc,
                                   [](const char* word) { return word[0] != '-' && word[0] != 0; });
  if (first == argv + argc) return "";
  const auto verb = std::ranges::find(verbs, *first, &VerbHelp::name);
  if (verb == verbs.end()) {
    std::vector<std::string> names;
    names.reserve(verbs.size());
    for (const VerbHelp& each : verbs) names.push_back(each.name);
    return fmt::format("there is no verb '{}'{}", ir::shown(*first),
                       ir::did_you_mean(*first, names));
  }
  std::vector<std::string> known, refused;
  const VerbHelp general = general_help(root);
  for (const VerbHelp* each : {&*verb, &general})
    for (const OptionHelp& option : each->options)
      if (!option.positional) known.push_back(option.name());
  for (const std::string& word : app.remaining(true)) {
    const std::string name = word.substr(0, word.find('='));
    refused.push_back(name.starts_with('-') && name.size() > 1
                          ? fmt::format("{} has no option '{}'{}", verb->name, ir::shown(name),
                                        ir::did_you_mean(name, known))
                          : fmt::format("'{}' was not expected", ir::shown(word)));
  }
  return fmt::format("{}", fmt::join(refused, "; "));
}

struct NamedVerb {
  std::string_view name;
  AddVerb add;
};
constexpr NamedVerb kVerbs[] = {
    {"compile", add_compile}, {"refit", add_refit},       {"sign", add_sign},
    {"run", add_run},         {"generate", add_generate}, {"chat", add_chat},
    {"bench", add_bench},     {"compare", add_compare},   {"inspect", add_inspect},
    {"verify", add_verify},   {"profile", add_profile},   {"report", add_report},
    {"ops", add_ops},         {"doctor", add_doctor}};

/// Declares the verbs of a command line. If it begins with a verb's name, declares only that one,
/// since declaring all takes most of a short run's time; for --version none.
void add_verbs(Cli& cli, std::string_view first, std::span<const AddVerb> more) {
  if (first == "--version") return;
  const auto named = std::ranges::find(kVerbs, first, &NamedVerb::name);
  for (const NamedVerb& verb : kVerbs)
    if (named == std::end(kVerbs) || verb.name == first) verb.add(cli);
  for (const AddVerb add : more) add(cli);
  if (named != std::end(kVerbs)) return;
  add_help(cli);
  add_completion(cli);
}

int run_words(int argc, char** argv, std::span<const AddVerb> more) {
  CLI::App app{"Sinter compiles ONNX models into plans and runs them.", "sinter"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(version()));
  app.fallthrough();
  Console console;
  Command command(app);
  app.formatter(std::make_shared<HelpFormatter>(command));
  command.group("Everywhere");
  command.add_flag("--json", console.json, "Print one JSON object on stdout");
  command.add_flag("-q,--quiet", console.quiet, "No progress, no notes");
  command.add_flag("--wide", console.wide,
                   "Tables keep their whole width on a terminal, as they do in a pipe");
  command.describe_flag("-h,--help", "Print this, or what a verb takes");
  command.describe_flag("--version", "Print the version");
  command.example("sinter compile model.onnx -o model.plan",
                  "for the GPU found here, else the CPU");
  command.example("sinter run model.plan --inputs in.npz --outputs out.npz");
  command.example("sinter bench model.plan");
  command.example("sinter compare model.onnx", "fused and unfused, side by side");
  command.example("sinter chat model_folder", "of the hub, or a GGUF file; compiled on first use");

  int exit_code = 0;
  Cli cli{command, console, exit_code};
  add_verbs(cli, argc > 1 ? argv[1] : "", more);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::string message = error.what();
    const std::string instead = command_for_trtexec({argv + 1, argv + argc});
    if (!instead.empty()) {
      message += fmt::format("; these are options of trtexec; write: {}", instead);
    } else {
      if (const std::string refusal = refusal_of(app, command, argc, argv); !refusal.empty())
        message = refusal;
      const auto chosen = app.get_subcommands();
      message += fmt::format("; see `sinter {}--help`",
                             chosen.empty() ? "" : chosen.front()->get_name() + " ");
    }
    console.json = console.json || asks_for_json(argc, argv);
    console.error(ErrorCode::kUsage, message);
    return exit_code_of(ErrorCode::kUsage);
  } catch (const CompileError& error) {
    console.error(error);
    return exit_code_of(error.code());
  } catch (...) {
    const Error error = current_error();
    console.error(error.code(), error.what());
    return exit_code_of(error.code());
  }
  return exit_code;
}

}  // namespace

int run_cli(int argc, char** argv, std::span<const AddVerb> more) {
  // Started before any thread exists, because operator definitions may be untrusted.
  if (std::any_of(argv + 1, argv + argc, [](std::string_view word) {
        return word == "--op" || word.starts_with("--op=");
      }))
    sandbox::start();
  const CleanUpOnSignals signals;
  const int exit_code = run_words(argc, argv, more);
  const std::string lost = finish_output();
  if (lost.empty()) return exit_code;
  Console().error(ErrorCode::kUsage, lost);
  return exit_code != 0 ? exit_code : exit_code_of(ErrorCode::kUsage);
}

}  // namespace sinter::tools
