// SPDX-License-Identifier: Apache-2.0
// Times product kernels over all their schedules against the library (cuBLASLt; cuDNN for
// convolutions), for the products of small transformers, the convolutions of vision models, and
// large products of 8 bits (names begin with i8_ and e4m3_; with f32_ those of exact float32; with
// block_ those with scales of blocks, with w4a8_ and w4a16_ those with weights of 4 bits, which the
// library is not asked for: their errors are relative to the first schedule's result). Needs a GPU;
// NVRTC compiles the kernels there.
//
//   bench_gemm [OPTIONS] > FILE.json    (--help)
//
// Every figure is the time of one of N products with weights of their own that follow each other in
// one CUDA graph, as in a model: launches and start-up are in it, copies to and from the host are
// not. "warm": what the last run left in the L2 cache is there; "cold": the L2 is flushed before
// the whole graph; "sustained" (--seconds): warm, once the GPU has run nothing else for so long, as
// its clock depends on the power that kernels take. Errors are relative to the largest value of the
// library's result.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <sinter/profile.h>
#include <sinter/sinter.h>
#include <unistd.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/parallel.h"
#include "ir/tensor.h"
#include "runtime/cuda/device_info.h"
#include "tests/perf/fit/fit.h"

namespace sinter::bench {
namespace {

struct Options {
  std::vector<std::string> filter, also;
  std::string way, timings;
  int copies = 12, repeats = 30, threads = 0, most = 1000;
  double seconds = 0;
  bool early = false, unpacked = false, estimates = false;
};

/// A schedule, and how many microseconds it is estimated to take.
struct Candidate {
  std::string schedule;
  double estimated = 0;
};

/// All schedules that take the shape; of large products those that may be any good.
std::vector<Candidate> schedules_of(const Workload& shape, bool by_warpgroups,
                                    const Options& options) {
  std::vector<Candidate> all;
  const auto gemm =
      WorkloadGemm::make(shape, by_warpgroups, !options.unpacked, codegen::reference_device());
  if (!gemm || !gemm->has_kernel()) return all;
  for (const auto& schedule : codegen::all_gemm_schedules(gemm->analysis(), gemm->product())) {
    const std::int64_t blocks = std::int64_t{(shape.rows + schedule.m - 1) / schedule.m} *
                                ((shape.columns + schedule.n - 1) / schedule.n) * schedule.split_k;
    // A few blocks leave most of the GPU idle, tiny tiles read large operands too often.
    const bool few = blocks * schedule.cluster_n < 24 && shape.rows > 16;
    if (few || blocks > 4096 || (shape.rows >= 1024 && schedule.cluster_n == 1 && schedule.m < 64))
      continue;
    if (all.size() == static_cast<std::size_t>(options.most)) break;
    all.push_back({schedule.to_string(), gemm->estimate(schedule) / 1000});
  }
  return all;
}

struct Job {
  const Workload* shape = nullptr;
  std::shared_ptr<const ir::Graph> graph;  // of all copies, fused; one for all ways
  std::string way;                         // "library", or a schedule
  double estimated = 0;
};

codegen::CompiledPlan compile(const ir::Graph& graph, const std::string& way, const Options& asked,
                              const std::string& architecture, const std::string& cache) {
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {architecture};
  options.gemm = way;
  options.programmatic_launch = asked.early;
  if (asked.unpacked) options.packed_weights.emplace();
  options.threads = 1;
  options.cache_dir = cache;
  return codegen::compile(graph, options);
}

/// Bits of `count` numbers of one type: of floats of 16 bits small multiples of 1/1024 around zero,
/// products of thousands of which stay in range; of 8 bits what weights are; of 32 bits scales.
void draw_values(DType type, std::span<std::byte> values, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  if (type == DType::kFloat32) {
    std::uniform_real_distribution<double> around_one(0.5, 1.5);
    for (std::size_t at = 0; at < values.size(); at += size_of(type))
      ir::store_double(type, values.data() + at, around_one(random));
    return;
  }
  if (size_of(type) == 1) {
    std::normal_distribution<double> normal(0, is_float(type) ? 1 : 32);
    for (std::byte& value : values) {
      const double drawn = normal(random);
      ir::store_double(type, &value,
                       std::clamp(is_float(type) ? drawn : std::round(drawn), -127., 127.));
    }
    return;
  }
  for (std::size_t at = 0; at < values.size(); at += sizeof(std::uint16_t)) {
    const auto bits =
        static_cast<std::uint16_t>((random() & 1) << 15 | (0x2c00 + (random() & 0x7ff)));
    std::memcpy(values.data() + at, &bits, sizeof(bits));
  }
}

/// On all threads, in parts with seeds of their own.
std::vector<std::byte> random_values(DType type, std::size_t count, std::uint64_t seed) {
  constexpr std::size_t kPart = 1 << 16;
  std::vector<std::byte> values(count * size_of(type));
  ir::for_each_range(values.size(), kPart, [&](std::size_t begin, std::size_t end) {
    draw_values(type, std::span(values).subspan(begin, end - begin), seed << 32 | begin / kPart);
  });
  return values;
}

struct Result {
  double warm = 0, cold = 0, sustained = 0;
  std::size_t launches = 0;
  std::string how;
  std::vector<double> output;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The same inputs for every way of one shape; drawing them takes longer than the measurement.
const std::vector<std::byte>& input_values(DType type, std::size_t index, std::size_t count) {
  static std::map<std::tuple<DType, std::size_t, std::size_t>, std::vector<std::byte>> known;
  auto& values = known[{type, index, count}];
  if (values.empty()) values = random_values(type, count, index);
  return values;
}

Result measure(const Plan& plan, const Options& options, const std::string& tuning) {
  SessionOptions session_options;
  session_options.tuning_cache = tuning;
  Session session(plan, session_options);
  std::size_t index = 0;
  for (const BindingInfo& input : plan.inputs()) {
    std::vector<std::int64_t> shape;
    std::size_t count = 1;
    for (const auto& dim : input.shape) {
      shape.push_back(dim.min);
      count *= static_cast<std::size_t>(shape.back());
    }
    const auto& values = input_values(input.dtype, index++, count);
    session.set_input(input.name, TensorView{input.dtype, shape, values.data(), Memory::kHost});
  }
  session.run();
  Result result;
  result.launches = session.launches();
  result.how = profile_steps(session).front().how;
  const TensorView view = session.output(plan.outputs()[0].name);
  const auto* bytes = static_cast<const std::byte*>(view.data);
  for (std::size_t at = 0; at < view.byte_count(); at += size_of(view.dtype))
    result.output.push_back(ir::load_as_double(view.dtype, bytes + at));
  std::vector<double> warm, cold;
  for (int i = 0; i < options.repeats; ++i) {
    warm.push_back(time_compute(session, false) / options.copies);
    cold.push_back(time_compute(session, true) / options.copies);
  }
  if (options.seconds > 0) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
    std::vector<double> times;
    while (Clock::now() < end) times.push_back(time_compute(session, false) / options.copies);
    result.sustained =
        median({times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end()});
  }
  result.warm = median(warm);
  result.cold = median(cold);
  return result;
}

double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  double difference = 0, largest = 1e-30;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(found[i]) < 1e6)) return 1e9;
    difference = std::max(difference, std::abs(found[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

/// The share of elements that are others than the library's: of results of 8 bits such as are
/// rounded another way.
double share_of_others(const std::vector<double>& found, const std::vector<double>& expected) {
  std::size_t others = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) others += found[i] != expected[i];
  return static_cast<double>(others) / static_cast<double>(std::max<std::size_t>(1, found.size()));
}

/// The options, or what the program ends with.
std::variant<Options, int> parse(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Times product kernels over all their schedules against the library; JSON on stdout");
  app.add_option("--filter", options.filter, "Workloads whose names contain one of these texts")
      ->delimiter(',');
  app.add_option("--copies", options.copies, "Products that follow each other in a graph");
  app.add_option("--repeats", options.repeats, "Runs, of which the median is taken");
  app.add_flag("--estimates", options.estimates, "Only what schedules are estimated to take");
  app.add_option("--seconds", options.seconds,
                 "Also the median at the end of this many seconds of nothing else");
  app.add_option("--threads", options.threads, "That compile kernels (0: as many as there are)");
  app.add_option("--most", options.most,
                 "So many schedules of each, by warps and by warpgroups, those first that are "
                 "estimated to be fast");
  app.add_option("--way", options.way, "Schedules that contain this text");
  app.add_option("--timings", options.timings,
                 "Appends a line for each schedule to this file, which fit_costs reads");
  app.add_option("--also", options.also,
                 "Schedules besides, such as those without promotion, which are not enumerated")
      ->delimiter(';');
  app.add_flag(
      "--early", options.early,
      "Kernels are launched before the one in front has ended, and wait for it themselves");
  app.add_flag("--unpacked", options.unpacked,
               "16-bit weights are left as they are for products of few rows, too, as where other "
               "entry points read them");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return options;
}

/// Compiles everything once into the kernel cache, in parallel.
void compile_all(const std::vector<Job>& jobs, const Options& options,
                 const std::string& architecture, const std::string& cache) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t j; (j = next++) < jobs.size();) try {
        compile(*jobs[j].graph, jobs[j].way, options, architecture, cache);
      } catch (const Error& error) {
        fmt::print(stderr, "{} {}: {}\n", jobs[j].shape->name, jobs[j].way, error.what());
      }
  };
  std::vector<std::thread> threads;
  const unsigned count = options.threads > 0 ? static_cast<unsigned>(options.threads)
                                             : std::max(1u, std::thread::hardware_concurrency());
  for (unsigned t = 0; t < count; ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

int run(const Options& options) {
  const runtime::CudaInfo info = runtime::query_cuda();
  const std::string architecture = info.gpus.empty() ? "sm_90" : info.gpus[0].architecture;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("bench_gemm_{}", getpid());
  const std::string cache = (folder / "kernels").string(), tuning = (folder / "tuning").string();
  std::filesystem::create_directories(cache);
  std::filesystem::create_directories(tuning);
  std::vector<Job> jobs;
  const std::vector<Workload> all = workloads(options.filter);
  for (const Workload& shape : all) {
    const auto graph = std::make_shared<const ir::Graph>(shape.graph(options.copies));
    if (shape.by_library) jobs.push_back({&shape, graph, "library"});
    for (const bool by_warpgroups : {false, true}) {
      if (by_warpgroups ? architecture != "sm_90" : !shape.by_warps && architecture == "sm_90")
        continue;
      for (const Candidate& candidate : schedules_of(shape, by_warpgroups, options))
        if (candidate.schedule.find(options.way) != std::string::npos)
          jobs.push_back({&shape, graph, candidate.schedule, candidate.estimated});
    }
    for (const std::string& schedule : options.also) jobs.push_back({&shape, graph, schedule});
  }
  if (options.estimates) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Job& job : jobs)
      rows.push_back(
          {{"shape", job.shape->name}, {"way", job.way}, {"estimated_us", job.estimated}});
    std::cout << nlohmann::ordered_json{{"products", rows}}.dump(1) << "\n";
    std::filesystem::remove_all(folder);
    return 0;
  }
  fmt::print(stderr, "{} kernels to compile\n", jobs.size());
  compile_all(jobs, options, architecture, cache);
  fmt::print(stderr, "compiled\n");
  nlohmann::ordered_json report = {{"gpu", info.gpus.empty() ? "none" : info.gpus[0].name},
                                   {"copies", options.copies}};
  if (info.gpus.empty()) {
    std::cout << report.dump(1) << "\n";
    std::filesystem::remove_all(folder);
    return 0;
  }
  std::vector<double> expected;
  for (const Job& job : jobs) {
    nlohmann::ordered_json row = {{"shape", job.shape->name}, {"way", job.way}};
    if (job.estimated > 0) row["estimated_us"] = job.estimated;
    try {
      const auto built = compile(*job.graph, job.way, options, architecture, cache);
      const Plan plan = Plan::from_memory(plan::serialize_plan(built.parts));
      const Result result = measure(plan, options, tuning);
      const bool is_first = &job == jobs.data() || job.shape != (&job - 1)->shape;
      if (is_first) expected = result.output;
      row["warm_us"] = result.warm;
      if (!options.timings.empty() && job.way != "library")
        std::ofstream(options.timings, std::ios::app)
            << to_json_line({job.shape->name, job.way, !options.unpacked, result.warm * 1000})
            << "\n";
      row["cold_us"] = result.cold;
      if (options.seconds > 0) row["sustained_us"] = result.sustained;
      row["launches"] = result.launches / static_cast<std::size_t>(options.copies);
      if (!result.how.empty()) row["how"] = result.how;
      row["error"] = relative_error(result.output, expected);
      row["others"] = share_of_others(result.output, expected);
      fmt::print(stderr, "{:20} {:7.2f} {:7.2f} us  error {:.1e}  {}\n", job.shape->name,
                 result.warm, result.cold, row["error"].get<double>(),
                 job.way == "library" ? result.how : job.way);
    } catch (const Error& error) {
      row["failed"] = error.what();
      fmt::print(stderr, "{:20} {}: {}\n", job.shape->name, job.way, error.what());
    }
    report["products"].push_back(std::move(row));
  }
  std::cout << report.dump(1) << "\n";
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace sinter::bench

int main(int argc, char** argv) {
  try {
    const auto parsed = sinter::bench::parse(argc, argv);
    if (const int* status = std::get_if<int>(&parsed)) return *status;
    return sinter::bench::run(std::get<sinter::bench::Options>(parsed));
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
