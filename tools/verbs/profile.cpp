#include <map>
#include <memory>

#include <fmt/format.h>

#include "tools/support/inputs.h"
#include "tools/support/measure.h"
#include "tools/verbs/verbs.h"

namespace sinter::tools {
namespace {

struct Options {
  std::string plan;
  InputOptions inputs;
  SessionOptions session;
  int rounds = 20;
};

void run(const Options& options, const Console& console) {
  const auto plan = Plan::load(options.plan);
  const auto inputs = make_inputs(plan.inputs(), options.inputs);
  Session session(plan, options.session);
  set_inputs(session, plan, inputs);
  session.run();
  std::vector<StepTime> steps;
  std::vector<std::vector<double>> samples;
  for (int round = 0; round < options.rounds; ++round) {
    steps = session.profile();
    samples.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) samples[i].push_back(steps[i].microseconds);
  }
  double total = 0;
  for (auto& sample : samples) total += statistics_of(sample).median;
  std::vector<std::vector<std::string>> rows = {{"step", "us", "share", "GB/s", "GFLOP/s", "how"}};
  nlohmann::ordered_json report = {{"plan", options.plan}, {"total_us", total}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double median = statistics_of(samples[i]).median;
    const double rate = median > 0 ? 1e-3 / median : 0;
    rows.push_back(
        {steps[i].name, fmt::format("{:.2f}", median), fmt::format("{:.1f}%", 100 * median / total),
         fmt::format("{:.0f}", static_cast<double>(steps[i].bytes) * rate),
         fmt::format("{:.0f}", static_cast<double>(steps[i].flops) * rate), steps[i].how});
    report["steps"].push_back({{"name", steps[i].name},
                               {"us", median},
                               {"bytes", steps[i].bytes},
                               {"flops", steps[i].flops},
                               {"how", steps[i].how}});
  }
  console.print(format_table(rows));
  console.print(fmt::format("{:.1f} us in {} steps, each timed alone", total, steps.size()));
  console.result(report);
}

}  // namespace

void add_profile(Cli& cli) {
  auto options = std::make_shared<Options>();
  auto* verb = cli.app.add_subcommand("profile", "Time every step of a plan");
  verb->add_option("plan", options->plan, "Plan file")->required();
  add_input_options(*verb, options->inputs);
  verb->add_option("--rounds", options->rounds, "Rounds; medians are printed")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  verb->add_option("--device", options->session.device, "CUDA device")->capture_default_str();
  verb->add_option("--threads", options->session.threads, "CPU threads; 0 is all cores");
  verb->callback([options, &console = cli.console] { run(*options, console); });
}

}  // namespace sinter::tools
