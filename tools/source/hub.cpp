// SPDX-License-Identifier: Apache-2.0
#include "tools/source/hub.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace fs = std::filesystem;

namespace {

constexpr const char* kMain = "main";

bool is_part(std::string_view text) {
  constexpr std::string_view kOthers = "-_.";
  return !text.empty() && text[0] != '.' && text[0] != '-' &&
         text.find("..") == std::string_view::npos && std::ranges::all_of(text, [&](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                  kOthers.find(c) != std::string_view::npos;
         });
}

std::string folder_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

fs::path folder_of(const HubName& name) {
  std::string folder = "models--" + name.repository;
  folder.replace(folder.find('/'), 1, "--");
  return fs::path(hub_cache()) / folder;
}

/// The snapshot of a revision; empty if the cache has none.
fs::path snapshot(const fs::path& model, const std::string& revision) {
  std::error_code none;
  std::string commit = revision;
  // A reference names a commit; a commit is its own name.
  if (const fs::path reference = model / "refs" / revision; fs::is_regular_file(reference, none)) {
    commit = files::read_file(reference.string(), "reference", 256);
    commit.erase(commit.find_last_not_of(" \r\n") + 1);
    if (!is_part(commit)) return {};
  }
  const fs::path folder = model / "snapshots" / commit;
  return fs::is_directory(folder, none) ? folder : fs::path();
}

/// Runs a program without a shell; its output goes to stderr. Returns its exit code.
int run_program(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// What a folder of a model is read from: no other frameworks' copies of the weights.
constexpr const char* kDownload = R"(
import sys
try:
    from huggingface_hub import snapshot_download
except ImportError:
    sys.exit(3)
name, revision, file = sys.argv[1:]
wanted = [file] if file else ["*.json", "*.jinja", "*.safetensors", "onnx/model.onnx*", "model.onnx*",
                              "onnx/encoder_model.onnx*", "onnx/decoder_model_merged.onnx*"]
snapshot_download(name, revision=revision, allow_patterns=wanted)
)";
constexpr int kNoPackage = 3;

void download(const HubName& name, const std::string& revision) {
  int code = -1;
  for (const char* python : {"python3", "python"}) {
    code = run_program({python, "-c", kDownload, name.repository, revision, name.file});
    if (code == 0) return;
    if (code > 0 && code != kNoPackage) break;
  }
  const std::string command =
      fmt::format("hf download {} --revision {}", name.repository, revision);
  if (code < 0 || code == kNoPackage)
    throw usage_error(
        "--download is done by Python's huggingface_hub, which is not installed: "
        "`pip install huggingface_hub`, or run `{}` where it is",
        command);
  throw usage_error("'{}' was not downloaded (see above); `{}` says more", name.repository,
                    command);
}

}  // namespace

std::optional<HubName> HubName::parse(const std::string& text) {
  std::error_code none;
  const std::size_t first = text.find('/');
  if (first == std::string::npos || fs::exists(text, none)) return std::nullopt;
  const std::size_t second = std::min(text.find('/', first + 1), text.size());
  HubName name;
  name.repository = text.substr(0, second);
  // A file that is missing is not looked for in the hub.
  for (const char* ending : {".plan", ".onnx", ".gguf"})
    if (name.repository.ends_with(ending)) return std::nullopt;
  if (!is_part(std::string_view(text).substr(0, first)) ||
      !is_part(std::string_view(text).substr(first + 1, second - first - 1)))
    return std::nullopt;
  for (std::size_t begin = second + 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    if (!is_part(std::string_view(text).substr(begin, end - begin))) return std::nullopt;
    begin = end + 1;
  }
  if (second < text.size()) name.file = text.substr(second + 1);
  return name;
}

std::string hub_cache() {
  if (std::string own = folder_of("HF_HUB_CACHE"); !own.empty()) return own;
  if (const std::string home = folder_of("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string cache = folder_of("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/huggingface/hub";
  return folder_of("HOME") + "/.cache/huggingface/hub";
}

std::string find_in_hub(const HubName& name, const HubOptions& options,
                        const std::function<void(std::string_view)>& note) {
  const std::string revision = options.revision.empty() ? kMain : options.revision;
  if (!is_part(revision)) throw usage_error("--revision '{}' is not valid", revision);
  const fs::path model = folder_of(name);
  if (options.download) {
    note(fmt::format("downloading {} ({}) by huggingface_hub", name.repository, revision));
    download(name, revision);
  }
  const fs::path found = snapshot(model, revision);
  if (found.empty())
    throw usage_error(
        "'{0}' is no file or folder, and the cache of huggingface_hub ({1}) does not have it{2}: "
        "--download gets it, or `hf download {0}` does",
        name.repository, hub_cache(),
        options.revision.empty() ? "" : fmt::format(" at the revision '{}'", revision));
  if (name.file.empty()) return found.string();
  std::error_code none;
  if (!fs::exists(found / name.file, none))
    throw usage_error("'{}' is not in the cache of huggingface_hub ({}): --download gets it",
                      name.file, found.string());
  return (found / name.file).string();
}

}  // namespace sinter::tools
