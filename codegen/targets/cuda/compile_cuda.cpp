// SPDX-License-Identifier: Apache-2.0
// Compiles emitted sources for all architectures in parallel, through the kernel cache.
#include "codegen/targets/cuda/compile_cuda.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/targets/cuda/embedded_device_headers.h"
#include "codegen/targets/cuda/nvrtc_loader.h"
#include "codegen/targets/kernel_cache.h"
#include "ir/parallel.h"
#include "runtime/files/output_file.h"
#include "runtime/sandbox/sandbox.h"

namespace sinter::codegen {

namespace {

constexpr const char* kOptions[] = {"-std=c++17", "-default-device"};
constexpr const char* kFileName = "kernel.cu";  // fixed: the code must not depend on the path

class Program {
 public:
  Program(const Nvrtc& nvrtc, const std::string& source) : nvrtc_(nvrtc) {
    std::vector<const char*> texts, names;
    for (const DeviceHeader& header : embedded_device_headers()) {
      texts.push_back(header.text.c_str());
      names.push_back(header.name.c_str());
    }
    check(nvrtc.create_program(&program_, source.c_str(), kFileName, static_cast<int>(texts.size()),
                               texts.data(), names.data()),
          "nvrtcCreateProgram");
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { nvrtc_.destroy_program(&program_); }

  nvrtcResult compile(const std::string& architecture) {
    const std::string target = "--gpu-architecture=" + architecture;
    std::vector<const char*> options = {target.c_str()};
    options.insert(options.end(), std::begin(kOptions), std::end(kOptions));
    return nvrtc_.compile_program(program_, static_cast<int>(options.size()), options.data());
  }
  std::string log() {
    std::size_t size = 0;
    if (nvrtc_.get_log_size(program_, &size) != NVRTC_SUCCESS || size == 0) return "";
    std::string text(size, '\0');
    if (nvrtc_.get_log(program_, text.data()) != NVRTC_SUCCESS) return "";
    text.resize(text.find_last_not_of(std::string("\0\n", 2)) + 1);
    return text;
  }
  std::vector<std::byte> cubin() {
    std::size_t size = 0;
    check(nvrtc_.get_cubin_size(program_, &size), "nvrtcGetCUBINSize");
    std::vector<std::byte> code(size);
    check(nvrtc_.get_cubin(program_, reinterpret_cast<char*>(code.data())), "nvrtcGetCUBIN");
    return code;
  }

 private:
  void check(nvrtcResult result, const char* what) const {
    if (result != NVRTC_SUCCESS)
      throw Error(ErrorCode::kDevice,
                  fmt::format("{} failed: {}", what, nvrtc_.get_error_string(result)));
  }
  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

/// Replaces #include lines of device headers by their text, each header once.
void inline_headers(std::string_view source, std::vector<std::string>& seen, std::string& out) {
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t end = std::min(source.find('\n', at), source.size());
    const std::string_view line = source.substr(at, end - at);
    at = end + 1;
    if (line == "#pragma once") continue;
    const DeviceHeader* included = nullptr;
    if (line.starts_with("#include \""))
      for (const DeviceHeader& header : embedded_device_headers())
        if (line == fmt::format("#include \"{}\"", header.name)) included = &header;
    if (included == nullptr) {
      out.append(line).push_back('\n');
    } else if (std::find(seen.begin(), seen.end(), included->name) == seen.end()) {
      seen.push_back(included->name);
      inline_headers(included->text, seen, out);
    }
  }
}

/// The text that NVRTC compiles, apart from its own headers. A device header that a kernel does not
/// include does not change its cache key.
std::string whole_text(std::string_view source) {
  std::vector<std::string> seen;
  std::string text;
  inline_headers(source, seen, text);
  return text;
}

/// Writes a file that reproduces the failure without Sinter; returns its path.
std::string write_reproducer(const std::string& source, const std::string& architecture,
                             const std::string& log) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) folder = ".";
  const std::string whole = whole_text(source);
  const std::string key = KernelCache::key(whole, "", "", 0, architecture);
  const std::filesystem::path path = folder / fmt::format("sinter-kernel-{}.cu", key.substr(0, 12));
  std::string text = fmt::format(
      "// Does not compile. To see it again:\n//   nvcc -arch={} {} "
      "--cubin -o /dev/null {}\n//\n",
      architecture, kOptions[0], path.filename().string());
  std::size_t at = 0;
  while (at < log.size()) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    text += "// " + log.substr(at, end - at) + "\n";
    at = end + 1;
  }
  text += whole;
  try {
    // Does not follow links that others may have placed in the shared folder.
    files::write_file(path.string(), text, {.what = "the reproducer"});
  } catch (const Error& cause) {
    return fmt::format("(no reproducer: {})", cause.what());
  }
  return path.string();
}

/// Architectures that this NVRTC supports: "sm_75, sm_80, ...".
std::string supported_architectures(const Nvrtc& nvrtc) {
  int count = 0;
  if (nvrtc.get_arch_count(&count) != NVRTC_SUCCESS || count == 0) return "unknown";
  std::vector<int> numbers(static_cast<std::size_t>(count));
  if (nvrtc.get_archs(numbers.data()) != NVRTC_SUCCESS) return "unknown";
  std::vector<std::string> names;
  for (int number : numbers) names.push_back(fmt::format("sm_{}", number));
  return fmt::format("{}", fmt::join(names, ", "));
}

void check_architectures(const Nvrtc& nvrtc, std::span<const KernelText> texts) {
  const std::string supported = supported_architectures(nvrtc);
  for (const auto& [source, architecture] : texts) {
    // sm_90a and similar (architecture- or family-specific) count as their number.
    std::string number = architecture;
    while (!number.empty() && (number.back() == 'a' || number.back() == 'f')) number.pop_back();
    if (supported != "unknown" &&
        fmt::format(", {},", supported).find(fmt::format(", {},", number)) == std::string::npos)
      throw Error(
          ErrorCode::kUsage,
          fmt::format("GPU architecture '{}' is unknown to NVRTC {}.{} ({}), which compiles "
                      "for {}",
                      architecture, nvrtc.version / 1000, nvrtc.version % 1000 / 10, nvrtc.path,
                      supported));
  }
}

/// Performance remarks in a compiler's log, such as serialized wgmma (C7515).
std::string remarks_in(const std::string& log) {
  std::string remarks;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.find("Potential Performance Loss") != line.npos) remarks += line + "\n";
  return remarks;
}

/// A (source, architecture) pair to compile; equal pairs are compiled once.
struct Job {
  std::string key;
  const KernelText* text = nullptr;
  CompiledKernel result;
};

/// NVRTC's result for a text: code, or the log of a failure.
struct Outcome {
  bool is_code = false;
  std::string log;
  std::vector<std::byte> code;
};

Outcome compile_text(const Nvrtc& nvrtc, const std::string& source,
                     const std::string& architecture) {
  Program program(nvrtc, source);
  const bool exact = source.find(kExactTarget) != std::string::npos;
  const nvrtcResult result =
      program.compile(exact && architecture == "sm_90" ? "sm_90a" : architecture);
  if (result == NVRTC_ERROR_COMPILATION) return {false, program.log(), {}};
  if (result != NVRTC_SUCCESS)
    throw Error(ErrorCode::kDevice,
                fmt::format("NVRTC ({}) failed: {}", nvrtc.path, nvrtc.get_error_string(result)));
  return {true, program.log(), program.cubin()};
}

// A user's text may come from a stranger, with macros that expand without end. The command with
// --op compiles it in a sandbox; the library compiles in the caller's process.
constexpr sandbox::Task kUserTask = {
    .name = "NVRTC",
    .verb = "done with this CUDA text",
    .prepare = [](std::string_view) -> std::shared_ptr<void> {
      load_nvrtc();
      return std::make_shared<int>();
    },
    .run = [](void*, std::string_view input) -> std::string {
      const std::size_t line = input.find('\n');
      const Outcome made = compile_text(load_nvrtc(), std::string(input.substr(line + 1)),
                                        std::string(input.substr(0, line)));
      std::string result = fmt::format("{:d} {}\n{}", made.is_code, made.log.size(), made.log);
      result.append(reinterpret_cast<const char*>(made.code.data()), made.code.size());
      return result;
    }};
constexpr sandbox::Limits kUserLimits = {.seconds = 60,
                                         .prepare_seconds = 20,
                                         .bytes = std::size_t{4} << 30,
                                         .answer_bytes = std::size_t{64} << 20};

Outcome compile_user_text(const std::string& source, const std::string& architecture) {
  static const sandbox::Worker worker(kUserTask, "", kUserLimits);
  std::string answer;
  try {
    answer = worker.run(architecture + "\n" + source);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    return {false, error.what(), {}};
  }
  const std::size_t line = answer.find('\n'), begin = line + 1;
  const std::size_t log = std::stoul(answer.substr(2, line - 2));
  const std::span<const char> code = std::span<const char>(answer).subspan(begin + log);
  const auto bytes = std::as_bytes(code);
  return {answer[0] == '1', answer.substr(begin, log), {bytes.begin(), bytes.end()}};
}

void run_job(Job& job, const KernelCache& cache, const Nvrtc& nvrtc) {
  if (auto code = cache.find(job.key)) {
    job.result = {std::move(*code), true, {}, {}};
    return;
  }
  const auto& [source, architecture] = *job.text;
  const bool is_users = source->find(kUserText) != std::string::npos;
  Outcome made = is_users && sandbox::is_started() ? compile_user_text(*source, architecture)
                                                   : compile_text(nvrtc, *source, architecture);
  if (!made.is_code) {
    std::string path = write_reproducer(*source, architecture, made.log);
    job.result.refusal = {std::move(made.log), std::move(path)};
    return;
  }
  job.result = {std::move(made.code), false, {}, remarks_in(made.log)};
  // The cache stores no remarks: code with remarks is compiled again, to report them again.
  if (job.result.remarks.empty()) cache.insert(job.key, job.result.code);
}

}  // namespace

std::vector<CompiledKernel> compile_cuda(std::span<const KernelText> texts,
                                         const KernelCompileOptions& options,
                                         KernelCompileStats& stats) {
  const auto start = std::chrono::steady_clock::now();
  const Nvrtc& nvrtc = load_nvrtc();
  check_architectures(nvrtc, texts);
  const KernelCache cache(options.cache_dir);
  const std::string flags = fmt::format("{}", fmt::join(kOptions, " "));

  std::vector<Job> jobs;
  std::map<std::string, std::size_t> by_key;
  std::map<const std::string*, std::string> whole;  // text with headers, by source
  std::vector<std::size_t> job_of;                  // index of the job of each text
  for (const KernelText& text : texts) {
    const auto [seen, is_new] = whole.try_emplace(text.source);
    if (is_new) seen->second = whole_text(*text.source);
    std::string key = KernelCache::key(seen->second, "", flags, nvrtc.version, text.architecture);
    const auto [found, added] = by_key.emplace(key, jobs.size());
    if (added) jobs.push_back({std::move(key), &text, {}});
    job_of.push_back(found->second);
  }

  std::mutex mutex;
  std::size_t done = 0;
  ir::for_each_job(jobs.size(), static_cast<std::size_t>(std::max(0, options.threads)),
                   [&](std::size_t j) {
                     run_job(jobs[j], cache, nvrtc);
                     const std::lock_guard lock(mutex);
                     ++done;
                     if (options.progress) options.progress(done, jobs.size());
                   });

  std::vector<CompiledKernel> results;
  for (const std::size_t job : job_of) results.push_back(jobs[job].result);
  for (const Job& job : jobs) stats.cache_hits += job.result.from_cache ? 1 : 0;
  stats.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  stats.version = nvrtc.version;
  return results;
}

}  // namespace sinter::codegen
