// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <optional>

#include <sinter/profile.h>

#include "ir/text/shown.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/cli/input_options.h"
#include "tools/cli/machine.h"
#include "tools/cli/session_options.h"
#include "tools/cli/signature_option.h"
#include "tools/cli/text/table.h"
#include "tools/cli/trace_option.h"
#include "tools/cli/verbs/plan_source.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/inspect/profile_report.h"
#include "tools/compiler/run/device_copies.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/run/measure.h"
#include "tools/report/trace.h"

namespace sinter::tools {
namespace {

// The trace shows medians over this number of rounds.
constexpr int kTraceRounds = 5;

struct BenchArguments {
  std::vector<std::string> files;
  ModelTexts model;
  InputTexts inputs;
  SessionOptions session;
  LoadOptions load;
  int iterations = 100;
  double duration = 3;
  int warm_up = 10;
  bool hot = false;
  bool device_io = false;
  std::string trace;
};

std::vector<std::string> row(const std::string& name, const Statistics& s) {
  std::vector<std::string> cells = {name};
  for (const double value : {s.min, s.mean, s.median, s.p90, s.p95, s.p99})
    cells.push_back(fmt::format("{:.1f}", value));
  return cells;
}

/// Measures the plan or model in `file`, prints and returns the results.
nlohmann::ordered_json measure(const std::string& file, const BenchArguments& options,
                               const Console& console) {
  const OpenModel model = open_model(file, options.model, options.load, console);
  const double context = create_context(model.plan, options.session.device);
  auto start = std::chrono::steady_clock::now();
  const auto plan = model.plan.path().empty()
                        ? model.plan
                        : Plan::load(std::string(model.plan.path()), options.load);
  const RunInputs drawn = parse(options.inputs);
  const auto inputs = make_inputs(plan.inputs(), drawn);
  const auto seconds = [&start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  if (options.device_io && plan.target() != "cuda")
    throw usage_error("--deviceIo needs a plan for the target cuda; {} is for {}", file,
                      plan.target());
  SessionOptions session_options = options.session;
  std::optional<DeviceCopies> copies;
  if (options.device_io) {
    session_options.output_memory = Memory::kDevice;
    copies.emplace(session_options.device);
  }
  Session session(plan, session_options);
  if (copies) {
    const auto bindings = plan.inputs();
    for (std::size_t i = 0; i < bindings.size(); ++i)
      session.set_input(bindings[i].name, bindings[i].is_read_by_host
                                              ? view_of(inputs[i])
                                              : TensorView(copies->add(inputs[i])));
  } else {
    set_inputs(session, plan, inputs);
  }
  first_run(session, drawn);
  const double first = seconds() * 1e6;
  for (int i = 0; i < options.warm_up; ++i) session.run();

  std::vector<double> latency, compute, to_device, to_host;
  start = std::chrono::steady_clock::now();
  const auto wanted = static_cast<std::size_t>(options.iterations);
  while (latency.size() < wanted && seconds() < options.duration) {
    latency.push_back(time_run(session));
    compute.push_back(time_compute(session, !options.hot));
    const auto transfers = time_transfers(session);
    to_device.push_back(transfers.host_to_device);
    to_host.push_back(transfers.device_to_host);
    console.progress("measuring", latency.size(), wanted);
  }
  // Throughput of a single caller: consecutive runs, each waited for.
  start = std::chrono::steady_clock::now();
  std::size_t runs = 0;
  while (runs < 10 || (runs < wanted && seconds() < options.duration)) {
    session.run();
    ++runs;
  }
  const double throughput = static_cast<double>(runs) / seconds();

  const auto all = statistics_of(latency), gpu = statistics_of(compute);
  const auto h2d = statistics_of(to_device), d2h = statistics_of(to_host);
  const auto account = session.memory();
  if (!options.trace.empty()) {
    std::vector<std::vector<StepTime>> rounds;
    for (int i = 0; i < kTraceRounds; ++i) rounds.push_back(profile_steps(session));
    write_trace(options.trace, trace_of(plan, median_of(rounds), gpu.median, file), console);
  }
  console.print("{} on {}, {}", file, plan.target(), ir::shown(describe_shapes(plan, inputs)));
  // On the CPU no transfers between memories exist.
  const bool is_gpu = plan.target() == "cuda";
  Rows rows = {{"us", "min", "mean", "median", "p90", "p95", "p99"}};
  if (is_gpu) rows.push_back(row("host to device", h2d));
  rows.push_back(row(options.hot ? "compute"
                     : is_gpu    ? "compute (cold L2)"
                                 : "compute (cold caches)",
                     gpu));
  if (is_gpu) rows.push_back(row("device to host", d2h));
  rows.push_back(row("latency", all));
  console.print(format_table(rows));
  console.print("throughput {:.1f} runs/s; load to first result {}; {} launches, {} moved",
                throughput, format_time(first), session.launches(),
                format_bytes(static_cast<double>(session.bytes_moved())));
  console.print(
      "memory: weights {}, arena {} (without reuse {}), workspace {}, inputs and outputs {}",
      format_bytes(static_cast<double>(account.weights)),
      format_bytes(static_cast<double>(account.arena)),
      format_bytes(static_cast<double>(account.arena_without_reuse)),
      format_bytes(static_cast<double>(account.workspace)),
      format_bytes(static_cast<double>(account.io)));
  if (account.weight_ring > 0)
    console.print(
        "weight budget: {} of the weights stay on the host and are copied to a ring of {}",
        format_bytes(static_cast<double>(account.streamed_weights)),
        format_bytes(static_cast<double>(account.weight_ring)));
  return {{"plan", file},
          {"target", plan.target()},
          {"device_io", options.device_io},
          {"cold_l2", !options.hot},
          {"shapes", describe_shapes(plan, inputs)},
          {"host_to_device_us", to_json(h2d)},
          {"compute_us", to_json(gpu)},
          {"device_to_host_us", to_json(d2h)},
          {"latency_us", to_json(all)},
          {"throughput_per_s", throughput},
          {"context_us", context},
          {"first_result_us", first},
          {"launches", session.launches()},
          {"bytes_moved", session.bytes_moved()},
          {"memory",
           {{"weights", account.weights},
            {"arena", account.arena},
            {"arena_without_reuse", account.arena_without_reuse},
            {"workspace", account.workspace},
            {"io", account.io},
            {"streamed_weights", account.streamed_weights},
            {"weight_ring", account.weight_ring}}}};
}

void run_bench(const BenchArguments& options, const Console& console) {
  std::vector<std::string> read = tensor_paths(options.inputs.inputs.files);
  read.insert(read.end(), options.files.begin(), options.files.end());
  files::check_output(options.trace, read);
  if (!options.trace.empty() && options.files.size() > 1)
    throw usage_error("--trace is of one plan: measure these {} one by one", options.files.size());
  if (options.files.size() == 1)
    return console.result(measure(options.files.front(), options, console));
  auto all = nlohmann::ordered_json::array();
  for (const auto& file : options.files) all.push_back(measure(file, options, console));
  console.result(all);
}

}  // namespace

void add_bench(Cli& cli) {
  auto options = std::make_shared<BenchArguments>();
  auto* verb = cli.app.add_subcommand(
      "bench", "Measure plans or models: transfers, compute, latency, throughput");
  verb->add_option("file", options->files,
                   "Plans or models (ONNX, GGUF, Graph text, folder), measured one after the other")
      ->required();
  add_input_options(*verb, options->inputs);
  verb->group("Measuring");
  verb->add_option("--iterations N", options->iterations, "Most measurements")
      ->capture_default_str()
      ->check_positive();
  verb->add_option("--duration SECONDS", options->duration, "Most seconds")->capture_default_str();
  verb->add_option("--warmUp N", options->warm_up, "Runs before measuring")->capture_default_str();
  verb->add_flag(
      "--hot", options->hot,
      "Leave the caches as the last run left them, instead of emptying them before each timed run");
  add_trace_option(*verb, options->trace);
  add_session_options(*verb, options->session);
  add_signature_option(*verb, options->load);
  verb->add_threads_option();
  verb->add_flag("--deviceIo", options->device_io,
                 "Keep inputs and outputs on the GPU: latency is that of the model alone");
  verb->add_graph_flag(options->session.cuda_graphs);
  verb->add_weight_budget(options->session.weight_budget);
  verb->group("Session");
  verb->add_option("--max-iterations N", options->session.max_iterations,
                   "Most iterations of all loops in a run")
      ->capture_default_str();
  add_model_options(*verb, options->model, false);
  verb->example("sinter bench model.plan --shapes=x:4x8");
  verb->example("sinter bench model.onnx --fuse=off --iterations 20", "a model, compiled first");
  verb->callback([options, &console = cli.console] { run_bench(*options, console); });
}

}  // namespace sinter::tools
