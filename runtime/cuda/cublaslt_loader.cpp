#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>

#include <dlfcn.h>
#include <fmt/format.h>

#include "runtime/cuda/cublaslt.h"

namespace sinter::runtime {
namespace {

namespace fs = std::filesystem;

// Newest first; both have the interface that the header declares.
constexpr const char* kLibraryNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    if (end > 0) parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

void add_if_folder(std::vector<std::string>& folders, const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) folders.push_back(folder.string());
}

// Where the PyPI wheels nvidia-cublas (13) and nvidia-cublas-cu12 put their libraries.
void add_wheel_folders(std::vector<std::string>& folders, const fs::path& environment) {
  std::error_code error;
  std::vector<fs::path> versions;
  for (fs::directory_iterator at(environment / "lib", error), end; !error && at != end;
       at.increment(error))
    if (at->path().filename().string().starts_with("python")) versions.push_back(at->path());
  std::sort(versions.begin(), versions.end());
  for (const fs::path& version : versions) {
    add_if_folder(folders, version / "site-packages/nvidia/cu13/lib");
    add_if_folder(folders, version / "site-packages/nvidia/cublas/lib");
  }
}

void* open_library(const std::string& path, std::vector<std::string>& tried) {
  if (void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) return handle;
  const char* reason = dlerror();
  tried.push_back(reason ? reason : path);
  return nullptr;
}

std::shared_ptr<const CublasLt> load() {
  const LibraryFolders search = cuda_library_folders();
  std::vector<std::string> candidates;
  const auto add_folder = [&](const std::string& folder) {
    for (const char* name : kLibraryNames) {
      const fs::path path = fs::path(folder) / name;
      std::error_code ignored;
      if (fs::exists(path, ignored)) candidates.push_back(path.string());
    }
  };
  for (std::size_t i = 0; i < search.first_count; ++i) add_folder(search.folders[i]);
  for (const char* name : kLibraryNames) candidates.emplace_back(name);
  for (std::size_t i = search.first_count; i < search.folders.size(); ++i)
    add_folder(search.folders[i]);

  std::vector<std::string> tried;
  for (const std::string& candidate : candidates) {
    void* handle = open_library(candidate, tried);
    if (!handle) continue;
    std::string path = candidate;
    Dl_info info{};
    if (void* symbol = dlsym(handle, "cublasLtCreate"))
      if (dladdr(symbol, &info) != 0 && info.dli_fname) path = info.dli_fname;
    return std::make_shared<const CublasLt>(
        [handle](const char* symbol) { return dlsym(handle, symbol); }, path);
  }
  std::string reasons;
  for (const std::string& reason : tried) reasons += "\n  " + reason;
  throw Error(ErrorCode::kDevice,
              fmt::format("cuBLASLt was not found; this plan needs it for its matrix products. "
                          "Install the CUDA toolkit, or run tools/setup --cuda (PyPI wheel "
                          "nvidia-cublas), or name its folder in SINTER_CUDA_LIBS. Tried:{}",
                          reasons));
}

}  // namespace

void fail(const CublasLt& library, cublasStatus_t status, std::string_view call) {
  const ErrorCode code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  throw Error(code, fmt::format("{} failed: {} ({}), cuBLASLt {} from {}", call,
                                library.status_name(status), static_cast<int>(status),
                                library.version(), library.path()));
}

CublasLt::CublasLt(const Resolver& resolve, std::string path) : path_(std::move(path)) {
  const auto find = [&](const char* symbol) {
    void* address = resolve(symbol);
    if (!address)
      throw Error(ErrorCode::kDevice,
                  fmt::format("{} lacks {}: cuBLASLt 12 or newer is needed", path_, symbol));
    return address;
  };
#define SINTER_FILL_ENTRY(member, symbol) \
  member = CublasEntry<decltype(&::symbol)>(this, #symbol, find(#symbol));
  SINTER_CUBLASLT_FUNCTIONS(SINTER_FILL_ENTRY)
#undef SINTER_FILL_ENTRY
  status_name_ = reinterpret_cast<const char* (*)(cublasStatus_t)>(find("cublasLtGetStatusName"));
  version_ = reinterpret_cast<std::size_t (*)()>(find("cublasLtGetVersion"))();
}

const char* CublasLt::status_name(cublasStatus_t status) const {
  const char* name = status_name_(status);
  return name ? name : "unknown status";
}

std::shared_ptr<const CublasLt> CublasLt::system() {
  static std::mutex mutex;
  // The library is never closed: its own threads and atexit handlers may outlive our users.
  static auto* loaded = new std::shared_ptr<const CublasLt>();
  const std::lock_guard lock(mutex);
  if (!*loaded) *loaded = load();
  return *loaded;
}

LibraryFolders cuda_library_folders() {
  LibraryFolders result;
  if (const char* listed = std::getenv("SINTER_CUDA_LIBS")) result.folders = split(listed);
  result.first_count = result.folders.size();
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable)) {
      add_if_folder(result.folders, fs::path(home) / "lib64");
      add_if_folder(result.folders, fs::path(home) / "lib");
    }
  add_if_folder(result.folders, "/usr/local/cuda/lib64");
  if (const char* environment = std::getenv("VIRTUAL_ENV"))
    add_wheel_folders(result.folders, environment);
  std::error_code error;
  // build/bin/sinter: the repository is two folders up, an installed prefix one.
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int level = 0; !error && level < 4 && !folder.empty(); ++level) {
    add_wheel_folders(result.folders, folder / ".venv");
    add_wheel_folders(result.folders, folder / ".deps");
    add_if_folder(result.folders, folder / ".deps/cuda/lib");
    add_if_folder(result.folders, folder / ".deps/cuda/lib64");
    if (folder == folder.root_path()) break;
    folder = folder.parent_path();
  }
  return result;
}

CublasLtHandle::CublasLtHandle(std::shared_ptr<const CublasLt> library)
    : library_(std::move(library)) {
  library_->create(&handle_);
}

bool CublasLtHandle::is_first_use(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return used_.insert(key).second;
}

CublasLtHandle::~CublasLtHandle() { library_->destroy.raw(handle_); }

}  // namespace sinter::runtime
