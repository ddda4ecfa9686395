// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <sinter/error.h>
#include <sinter/sinter.h>

#include "runtime/current_error.h"
#include "runtime/sandbox/sandbox.h"
#include "tools/cli/console.h"
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

/// Options behind one that is refused are not parsed.
bool asks_for_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* word) { return std::string_view(word) == "--json"; });
}

constexpr const char* kFooter = R"(
Examples:
  sinter compile model.onnx -o model.plan                   for the GPU found here, else the CPU
  sinter compile model.onnx -o model.plan --target=cuda:sm_90,sm_80 --precision=fp16
  sinter run model.plan --inputs in.npz --outputs out.npz
  sinter bench model.plan --shapes=ids:1x64
  sinter compare model.onnx --shapes=ids:1x64               fused and unfused, side by side
  sinter compile decoder.onnx -o decoder.plan --weights=int8 --sample greedy
  sinter generate decoder.plan --tokenizer tokenizer.json --prompt "Once upon a time"

The Python package's command (pip install; python -m pysinter) has rows of files and models for Triton, too:
  sinter run model.plan --inputs rows.parquet --outputs predictions.parquet --columns x=age,income
  sinter embed encoder.plan --column text --inputs rows.parquet --outputs embedded.parquet
  sinter triton model.plan -o model_repository

Exit codes: 0 done, 1 a comparison failed, 2 usage, 3 unsupported model, 4 invalid model,
5 invalid plan, 6 out of memory, 7 device, 70 a defect of Sinter, 130 interrupted.)";

struct NamedVerb {
  std::string_view name;
  AddVerb add;
};
constexpr NamedVerb kVerbs[] = {
    {"compile", add_compile}, {"refit", add_refit},       {"sign", add_sign},
    {"run", add_run},         {"generate", add_generate}, {"bench", add_bench},
    {"compare", add_compare}, {"inspect", add_inspect},   {"verify", add_verify},
    {"profile", add_profile}, {"report", add_report},     {"ops", add_ops},
    {"doctor", add_doctor}};

/// Declares the verbs of a command line: of one that begins with a verb's name that one, which is
/// most of what a short verb's process would do; of --version alone none.
void add_verbs(Cli& cli, std::string_view first, std::span<const AddVerb> more) {
  if (first == "--version") return;
  const auto named = std::ranges::find(kVerbs, first, &NamedVerb::name);
  for (const NamedVerb& verb : kVerbs)
    if (named == std::end(kVerbs) || verb.name == first) verb.add(cli);
  for (const AddVerb add : more) add(cli);
}

int run_words(int argc, char** argv, std::span<const AddVerb> more) {
  CLI::App app{"Sinter compiles ONNX models into plans and runs them.", "sinter"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(version()));
  app.footer(kFooter);
  app.fallthrough();
  Console console;
  app.add_flag("--json", console.json, "Print one JSON object on stdout");
  app.add_flag("-q,--quiet", console.quiet, "No progress, no notes");
  app.add_flag("--wide", console.wide,
               "Tables keep their whole width on a terminal, as they do in a pipe");

  int exit_code = 0;
  Command command(app);
  Cli cli{command, console, exit_code};
  add_verbs(cli, argc > 1 ? argv[1] : "", more);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string instead =
        error.get_exit_code() == 0 ? "" : command_for_trtexec({argv + 1, argv + argc});
    const std::string hint =
        instead.empty() ? "" : fmt::format("these are options of trtexec; write: {}", instead);
    if (error.get_exit_code() != 0 && asks_for_json(argc, argv)) {
      console.json = true;
      console.error(ErrorCode::kUsage,
                    hint.empty() ? error.what() : fmt::format("{}; {}", error.what(), hint));
      return exit_code_of(ErrorCode::kUsage);
    }
    const int code = app.exit(error);
    if (!hint.empty()) console.note(hint);
    return code == 0 ? 0 : 2;
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
  // Before there are threads: texts of operators may be a stranger's.
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
