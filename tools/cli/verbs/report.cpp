// SPDX-License-Identifier: Apache-2.0
#include "tools/report/report.h"

#include <filesystem>
#include <memory>

#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/cli/build_options.h"
#include "tools/cli/input_options.h"
#include "tools/cli/session_options.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/api.h"
#include "tools/compiler/inspect/plan_report.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;

struct ReportArguments {
  BuildTexts build;  // build.model is the file: plan, ONNX file or Graph text
  InputTexts inputs;
  std::string output, profile, compare, against, against_profile, against_compare;
  ReportOptions report;
};

bool is_page(const std::string& file) { return std::filesystem::path(file).extension() == ".html"; }

bool is_compiled(const std::string& file) { return is_page(file) || is_plan_file(file); }

/// Reads the `--json` output of a verb; null for no file.
ordered_json read_json(const std::string& path, const char* what) {
  if (path.empty()) return nullptr;
  auto json = ordered_json::parse(files::read_file(path, what), nullptr, false);
  if (!json.is_object())
    throw usage_error("{} '{}' is not the JSON object that --json prints", what, path);
  return json;
}

/// Report data of a plan, of a model compiled by `texts`, or of an earlier report.
ordered_json data_of(const std::string& file, const BuildTexts& texts, const ReportOptions& how,
                     const Console& console) {
  if (is_page(file)) return data_of_page(files::read_file(file, "the report"), file);
  if (is_plan_file(file)) {
    const Plan plan = Plan::load(file);
    return at_boundary(monitor_of(console), OptionNames::kFlags, [&](Reporter& reporter) {
      return report_of_plan(plan, file, how, reporter);
    });
  }
  BuildTexts own = texts;
  own.model = file;
  const BuildRequest request(own, console);
  return at_boundary(request.options().monitor, OptionNames::kFlags, [&](Reporter& reporter) {
    return report_of_model(request.options(), how, reporter);
  });
}

void run_report(const ReportArguments& options, const Console& console) {
  const std::string& file = options.build.model;
  std::string path = options.output;
  if (path.empty()) path = std::filesystem::path(file).replace_extension(".html").string();
  files::check_output(path, {file, options.against, options.profile, options.compare,
                             options.against_profile, options.against_compare});
  if (is_compiled(file) && (options.against.empty() || is_compiled(options.against)))
    check_no_build_options(options.build, file);
  ReportOptions how = options.report;
  how.inputs = parse(options.inputs);
  how.profile = read_json(options.profile, "the profile");
  how.compare = read_json(options.compare, "the comparison");
  ordered_json against;
  const ordered_json report = data_of(file, options.build, how, console);
  if (!options.against.empty()) {
    how.profile = read_json(options.against_profile, "the profile");
    how.compare = read_json(options.against_compare, "the comparison");
    against = data_of(options.against, options.build, how, console);
  }
  const std::string page = report_page(report, against);
  files::write_file(path, page, {.what = "the report", .is_durable = false});
  const std::size_t nodes = report.at("graph").at("nodes").size();
  const std::size_t steps = report.at("step_list").size();
  const bool has_times = !report.at("profile").is_null();
  console.print("{}: {}, {} nodes, {} steps{}", path,
                format_bytes(static_cast<double>(page.size())), nodes, steps,
                has_times ? "" : ", no times");
  console.result({{"report", path},
                  {"bytes", page.size()},
                  {"nodes", nodes},
                  {"steps", steps},
                  {"has_times", has_times}});
}

}  // namespace

void add_report(Cli& cli) {
  auto options = std::make_shared<ReportArguments>();
  auto* verb = cli.app.add_subcommand(
      "report",
      "Write one HTML file that shows the graph, the kernels, memory and where the time goes");
  verb->add_option("file", options->build.model, "Plan, ONNX file or Graph text")->required();
  verb->group("Output");
  verb->add_option("-o,--output FILE", options->output,
                   "HTML file (default: the file's name with .html)");
  verb->group("Times and comparisons");
  auto* profile = verb->add_option("--profile FILE", options->profile,
                                   "Times from this file, which `sinter profile --json` printed, "
                                   "instead of measuring them now");
  verb->add_flag("!--no-profile", options->report.measure, "Do not run the plan: no times")
      ->excludes(profile);
  verb->add_option("--compare FILE", options->compare,
                   "Fused against unfused from this file, which `sinter compare --json` printed");
  auto* against = verb->add_option("--against FILE", options->against,
                                   "A plan, a model or an earlier report to put beside this one");
  verb->add_option("--against-profile FILE", options->against_profile, "Its times")->needs(against);
  verb->add_option("--against-compare FILE", options->against_compare, "Its comparison")
      ->needs(against);
  verb->add_option("--rounds N", options->report.rounds, "Rounds of measuring; medians are shown")
      ->capture_default_str()
      ->check_positive();
  verb->add_flag("--verify", options->report.verify,
                 "Of a model: run each kernel on the reference's inputs and show its error");
  add_session_options(*verb, options->report.session);
  verb->add_threads_option();
  add_build_options(*verb, options->build, OptionVerbs::kNotCompare);
  add_input_options(*verb, options->inputs);
  verb->example("sinter report model.plan -o report.html");
  verb->example("sinter report model.onnx --no-profile --fuse=off -o unfused.html");
  verb->callback([options, &console = cli.console] { run_report(*options, console); });
}

}  // namespace sinter::tools
