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

/// A stored schedule for one kernel variant on one GPU model.
struct KeptSchedule {
  std::string gpu, architecture;
  std::string kernel, key;
  std::size_t variant = 0;
  std::string schedule;
  double microseconds = 0;
  std::string details;  // human-readable: the rule's schedule and time, number of candidates,
                        // versions
};

/// Schedules stored in `file`. Throws Error(kUsage) naming file and line if it is unreadable or
/// malformed, Error(kDevice) in a build without CUDA.
std::vector<KeptSchedule> read_schedules(const std::string& file);

/// Stores the timed schedules, also where the rule's choice won. Throws Error(kUsage) if the file
/// cannot be written.
void keep_schedules(const std::string& file, const TuningMachine& machine,
                    const std::vector<TunedKernel>& kernels);

/// Schedules for one architecture and GPU, by kernel. Without a GPU the file must contain a single
/// GPU model for the architecture; else throws Error(kUsage) naming them.
std::map<std::string, codegen::ChosenSchedules> schedules_for(
    const std::vector<KeptSchedule>& kept, const std::string& file, const std::string& architecture,
    const std::optional<std::string>& gpu);

/// Copies all entries of `from` to `to`. Throws Error(kUsage) if `to` cannot be written.
void copy_tuning(const std::string& from, const std::string& to);

/// Whether anything must be read, timed or written.
bool is_asked_for(const TuneOptions& options);

class Tuning {
 public:
  /// `plan_path`: the plan's final path; empty: in memory. `machine` creates the machine for
  /// timing: gpu_machine, or a test's. `reporter` must outlive this. Throws Error(kDevice) if
  /// tuning needs a GPU and there is none, Error(kUsage) for an unreadable file, or if timings have
  /// no file.
  Tuning(TuneOptions options, std::string plan_path, Reporter& reporter,
         const std::function<TuningMachine(int device)>& machine = gpu_machine);

  /// BuildOptions::tune: takes schedules from the file, times missing ones and stores these.
  /// `target_text`: as the user wrote it. Throws Error(kUsage) if kernels for that target cannot be
  /// timed here.
  void choose(const std::string& target_text, const ir::Graph& model,
              std::span<const codegen::EntryGraph> entries, const Target& target,
              codegen::CompileOptions& compile);
  /// After compilation: times libraries' algorithms if requested, and copies stored ones to where
  /// the plan's sessions look. `written`: the plan's current file. A plan in memory skips both,
  /// with a note. Returns what was done.
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
  std::vector<std::map<std::string, std::vector<std::int64_t>>> input_shapes_;  // by graph
  std::vector<TunedKernel> tuned_;
};

}  // namespace sinter::tools
