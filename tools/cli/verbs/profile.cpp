// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "runtime/files/output_file.h"
#include "tools/cli/input_options.h"
#include "tools/cli/session_options.h"
#include "tools/cli/text/profile_text.h"
#include "tools/cli/trace_option.h"
#include "tools/cli/verbs/plan_source.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/api.h"
#include "tools/compiler/inspect/profile_report.h"
#include "tools/report/trace.h"

namespace sinter::tools {
namespace {

struct ProfileArguments {
  std::string file;
  ModelTexts model;
  InputTexts inputs;
  ProfileOptions profile;
  std::string trace;
};

void run_profile(const ProfileArguments& options, const Console& console) {
  ProfileOptions how = options.profile;
  how.inputs = parse(options.inputs);
  files::check_output(options.trace, {options.file});
  how.monitor = monitor_of(console);
  // Calls profile_plan directly: its messages then name flags.
  const Plan plan = open_model(options.file, options.model, {}, console).plan;
  const ProfileReport report =
      at_boundary(how.monitor, OptionNames::kFlags,
                  [&](Reporter& reporter) { return profile_plan(plan, how, reporter); });
  if (!options.trace.empty()) {
    std::vector<StepTime> steps;
    for (const StepProfile& step : report.steps) steps.push_back(step.time);
    write_trace(options.trace, trace_of(plan, steps, report.whole_us, options.file), console);
  }
  console.print(profile_table(report, console.line_width()));
  for (const auto& line : profile_summary(report)) console.print(line);
  nlohmann::ordered_json json = {{"plan", options.file},
                                 {"target", report.target},
                                 {"shapes", report.shapes},
                                 {"rounds", how.rounds}};
  json.update(to_json(report));
  console.result(json);
}

}  // namespace

void add_profile(Cli& cli) {
  auto options = std::make_shared<ProfileArguments>();
  auto* verb = cli.app.add_subcommand(
      "profile",
      "Where the time goes of a plan or a model: every step against what the machine can do");
  verb->add_option("file", options->file, "Plan, or a model: ONNX, GGUF, Graph text, folder")
      ->required();
  add_input_options(*verb, options->inputs);
  verb->group("Measuring");
  add_trace_option(*verb, options->trace);
  verb->add_option("--rounds N", options->profile.rounds, "Rounds; medians are printed")
      ->capture_default_str()
      ->check_positive();
  add_session_options(*verb, options->profile.session);
  verb->add_weight_budget(options->profile.session.weight_budget);
  verb->add_threads_option();
  add_model_options(*verb, options->model);
  verb->example("sinter profile model.plan");
  verb->example("sinter profile model.onnx --target=cpu --trace trace.json");
  verb->callback([options, &console = cli.console] { run_profile(*options, console); });
}

}  // namespace sinter::tools
