// SPDX-License-Identifier: Apache-2.0
// Tuning files and timings: what is read, timed and written around one compilation.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/plan/schedule_choice.h"
#include "tools/compiler/build/build.h"
#include "tools/compiler/tuning/tune.h"

namespace sinter::tools {

/// A schedule that a file keeps for one variant of a kernel on one kind of GPU.
struct KeptSchedule {
  std::string gpu, architecture;
  std::string kernel, key;
  std::size_t variant = 0;
  std::string schedule;
  double microseconds = 0;
  std::string details;  // the rule's schedule and time, how many were tried, versions; for people
};

/// What `file` keeps of schedules. Throws Error(kUsage) naming file and line if it cannot be read
/// or is malformed, Error(kDevice) in a build without CUDA.
std::vector<KeptSchedule> read_schedules(const std::string& file);

/// Adds what was timed, the rule's choice too where that won. Throws Error(kUsage) if the file
/// cannot be written.
void keep_schedules(const std::string& file, const TuningMachine& machine,
                    const std::vector<TunedKernel>& kernels);

/// Those for one architecture and GPU, by kernel. Without a GPU the file must have those of one
/// kind alone for the architecture: else Error(kUsage) names them.
std::map<std::string, codegen::ChosenSchedules> schedules_for(
    const std::vector<KeptSchedule>& kept, const std::string& file, const std::string& architecture,
    const std::optional<std::string>& gpu);

/// Adds all that `from` keeps to `to`. Throws Error(kUsage) if that cannot be written.
void copy_tuning(const std::string& from, const std::string& to);

/// Whether anything is to be read, timed or written.
bool is_asked_for(const TuneOptions& options);

class Tuning {
 public:
  /// `plan_path`: where the plan will be; empty: it stays in memory. `machine`: makes what is timed
  /// on; gpu_machine, or a test's. `reporter` must outlive this. Throws Error(kDevice) if there is
  /// no GPU to tune on, Error(kUsage) for a file that cannot be read, or none to keep timings in.
  Tuning(TuneOptions options, std::string plan_path, Reporter& reporter,
         const std::function<TuningMachine(int device)>& machine = gpu_machine);

  /// BuildOptions::tune: takes schedules from the file, times what it has not, and keeps that.
  /// `target_text`: as the user wrote it. Throws Error(kUsage) if kernels cannot be timed for that
  /// target here.
  void choose(const std::string& target_text, const ir::Graph& model,
              std::span<const codegen::EntryGraph> entries, const Target& target,
              codegen::CompileOptions& compile);
  /// Behind the plan: times libraries' algorithms if that was asked for, and puts what the tuning
  /// file keeps of them where sessions of the plan look. `written`: the file that the plan lies in
  /// for now; of a plan in memory, which has none, both are left out, which is said. Returns what
  /// was done.
  TuningResult finish(const codegen::CompiledPlan& plan, const std::string& written);

 private:
  void check_target(const Target& target) const;
  std::vector<ir::Bindings> choose_sizes(const ir::Graph& model,
                                         std::span<const codegen::EntryGraph> entries);
  void tune_libraries(const std::string& written, TuningResult& result);
  void tell_use(const codegen::CompiledPlan& plan, TuningResult& result);

  TuneOptions options_;
  std::string plan_path_, file_;
  Reporter& reporter_;
  std::optional<TuningMachine> machine_;
  std::vector<KeptSchedule> kept_;
  std::map<std::string, codegen::ChosenSchedules> chosen_;
  std::vector<std::map<std::string, std::vector<std::int64_t>>> input_shapes_;  // of each graph
  std::vector<TunedKernel> tuned_;
};

}  // namespace sinter::tools
