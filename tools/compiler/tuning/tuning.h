// compile --tune and --tuning-cache: what is read, timed and written around one compilation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/options.h"
#include "tools/compiler/build.h"
#include "tools/compiler/tuning/tuning_file.h"

namespace sinter::tools {

struct TuningOptions {
  double seconds = 0;  // to time kernels for; 0: none are timed
  std::string file;    // empty: beside the plan if something is timed, else none
  std::string gpu;     // whose schedules to take from the file; empty: this machine's, or the only
  std::string shapes;  // to tune for: NAME:1x64
  int device = 0;
  bool is_asked_for() const { return seconds > 0 || !file.empty(); }
};
/// Behind add_build_options.
void add_tuning_options(Command& verb, TuningOptions& options);

class Tuning {
 public:
  /// `machine`: makes what is timed on; gpu_machine, or a test's. Throws Error(kDevice) if there is
  /// no GPU to tune on, Error(kUsage) for a file that cannot be read.
  Tuning(TuningOptions options, std::string plan_path, const Console& console,
         const std::function<TuningMachine(int device)>& machine = gpu_machine);

  /// BuildOptions::tune: takes schedules from the file, times what it has not, and keeps that.
  /// `target_text`: as the user wrote it. Throws Error(kUsage) if kernels cannot be timed for that
  /// target here.
  void choose(const std::string& target_text, const ir::Graph& model,
              std::span<const codegen::EntryGraph> entries, const Target& target,
              codegen::CompileOptions& compile);
  /// Behind the plan's file: times libraries' algorithms if that was asked for, and puts what the
  /// tuning file keeps of them where sessions of the plan look. Prints what was done.
  void finish(const codegen::CompiledPlan& plan);

  const nlohmann::ordered_json& report() const { return report_; }

 private:
  void check_target(const Target& target) const;
  std::vector<ir::Bindings> choose_sizes(const ir::Graph& model,
                                         std::span<const codegen::EntryGraph> entries);
  void tune_libraries();
  void tell_use(const codegen::CompiledPlan& plan);

  TuningOptions options_;
  std::string plan_path_, file_;
  const Console& console_;
  std::optional<TuningMachine> machine_;
  std::vector<KeptSchedule> kept_;
  std::map<std::string, codegen::ChosenSchedules> chosen_;
  std::vector<std::map<std::string, std::vector<std::int64_t>>> input_shapes_;  // of each graph
  std::vector<TunedKernel> tuned_;
  nlohmann::ordered_json report_;
};

}  // namespace sinter::tools
