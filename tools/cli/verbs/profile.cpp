#include <memory>

#include <sinter/profile.h>

#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/inspect/profile_report.h"
#include "tools/compiler/options/inputs.h"
#include "tools/compiler/verify/measure.h"

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
  const MachineRates rates = measure_rates(session);
  std::vector<std::vector<StepTime>> rounds;
  std::vector<double> whole;
  Progress progress(console, "measuring");
  for (int round = 0; round < options.rounds; ++round) {
    rounds.push_back(profile_steps(session));
    whole.push_back(time_compute(session, true));
    progress.update(static_cast<std::size_t>(round) + 1, static_cast<std::size_t>(options.rounds));
  }
  const ProfileReport profile =
      make_report(median_of(rounds), rates, statistics_of(std::move(whole)).median);
  console.print(profile_table(profile));
  for (const auto& line : profile_summary(profile)) console.print(line);
  nlohmann::ordered_json report = {{"plan", options.plan},
                                   {"target", plan.target()},
                                   {"shapes", describe_shapes(plan, inputs)},
                                   {"rounds", options.rounds}};
  report.update(to_json(profile));
  console.result(report);
}

}  // namespace

void add_profile(Cli& cli) {
  auto options = std::make_shared<Options>();
  auto* verb = cli.app.add_subcommand(
      "profile", "Where the time of a plan goes: every step against what the machine can do");
  verb->add_option("plan", options->plan, "Plan file")->required();
  add_input_options(*verb, options->inputs);
  verb->add_option("--rounds", options->rounds, "Rounds; medians are printed")
      ->capture_default_str()
      ->check_positive();
  verb->add_option("--device", options->session.device, "CUDA device")->capture_default_str();
  verb->add_option("--threads", options->session.threads,
                   "CPU threads, at most the pool's; 0: all of them");
  verb->callback([options, &console = cli.console] { run(*options, console); });
}

}  // namespace sinter::tools
