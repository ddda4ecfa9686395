// SPDX-License-Identifier: Apache-2.0
// Finding the driver, cuBLASLt and cuDNN on the machine, and what is said where they are missing.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <dlfcn.h>
#include <unistd.h>

#include "runtime/cuda/device_info.h"
#include "runtime/libraries/cuda_libraries.h"
#include "tests/runtime/cuda/cuda_fixture.h"
#include "tests/support/paths.h"

namespace sinter::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

bool machine_has_driver() {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle) dlclose(handle);
  return handle != nullptr;
}

TEST(CudaLibraryTest, DoctorReportsWithoutThrowing) {
  const runtime::CudaInfo info = runtime::query_cuda();
  EXPECT_EQ(info.has_driver, info.driver_problem.empty());
  EXPECT_EQ(info.has_cublaslt, info.cublaslt_problem.empty());
  EXPECT_EQ(info.has_cublaslt, info.cublaslt_version >= 120000) << info.cublaslt_version;
  EXPECT_EQ(info.has_cublaslt, fs::exists(info.cublaslt_path)) << info.cublaslt_path;
  EXPECT_EQ(info.has_cudnn, info.cudnn_problem.empty());
  EXPECT_EQ(info.has_cudnn, !info.cudnn_version.empty());
  EXPECT_EQ(info.has_cudnn, fs::exists(info.cudnn_path)) << info.cudnn_path;
  if (!info.has_cudnn) {
    EXPECT_THAT(info.cudnn_problem, AllOf(HasSubstr("cuDNN"), HasSubstr("tools/setup --cudnn")));
  }
  if (machine_has_driver()) {
    EXPECT_TRUE(info.has_driver || info.driver_problem.find("GPU") != std::string::npos);
  } else {
    EXPECT_THAT(info.driver_problem,
                AllOf(HasSubstr("no NVIDIA driver: libcuda.so.1 was not found"),
                      HasSubstr("nvidia.com/drivers"), HasSubstr("--target=cpu")));
  }
}

TEST(CudaLibraryTest, ListedFoldersAreSearchedFirst) {
  const fs::path folder = fs::temp_directory_path();
  ::setenv("SINTER_CUDA_LIBS", (folder.string() + ":/nowhere:").c_str(), 1);
  const libraries::LibraryFolders search = libraries::cuda_library_folders();
  ::unsetenv("SINTER_CUDA_LIBS");
  ASSERT_EQ(search.first_count, 2u);
  EXPECT_EQ(search.folders[0], folder.string());
  EXPECT_EQ(search.folders[1], "/nowhere");
}

TEST(CudaLibraryTest, WheelsOfAVirtualEnvironmentAreFound) {
  const fs::path environment =
      fs::temp_directory_path() / ("sinter_venv_" + std::to_string(::getpid()));
  const fs::path wheels = environment / "lib/python3.11/site-packages/nvidia";
  fs::create_directories(wheels / "cu13/lib");
  fs::create_directories(wheels / "cudnn/lib");
  ::setenv("VIRTUAL_ENV", environment.c_str(), 1);
  const auto folders = libraries::cuda_library_folders().folders;
  ::unsetenv("VIRTUAL_ENV");
  fs::remove_all(environment);
  EXPECT_THAT(folders, Contains((wheels / "cu13/lib").string()));
  EXPECT_THAT(folders, Contains((wheels / "cudnn/lib").string()));
}

TEST(CudaLibraryTest, FoldersAboveAreBelievedInASourceTreeAlone) {
  const fs::path root = fs::temp_directory_path() / ("sinter_above_" + std::to_string(::getpid()));
  const fs::path packages = root / ".deps/pypi/nvidia/cu13/lib",
                 wheels = root / ".venv/lib/python3.11/site-packages/nvidia/cu13/lib";
  fs::create_directories(packages);
  fs::create_directories(wheels);
  const std::string binary = (root / "build/bin/sinter").string();
  auto folders = libraries::cuda_library_folders(binary).folders;
  EXPECT_THAT(folders, ::testing::Not(Contains(packages.string())));
  EXPECT_THAT(folders, ::testing::Not(Contains(wheels.string())));
  fs::create_directories(root / "tools");
  std::ofstream(root / "tools/setup") << "#!/bin/sh\n";
  folders = libraries::cuda_library_folders(binary).folders;
  fs::permissions(root, fs::perms::all | fs::perms::sticky_bit);
  const auto of_anybody = libraries::cuda_library_folders(binary).folders;
  fs::remove_all(root);
  EXPECT_THAT(of_anybody, ::testing::Not(Contains(packages.string())));
  EXPECT_THAT(folders, Contains(packages.string()));
  EXPECT_THAT(folders, Contains(wheels.string()));
}

TEST(CudaLibraryTest, CommandsAreForWhatIsInstalled) {
  const auto command = [](const std::string& binary) {
    return libraries::install_command("'some-package>=1,<2'", "--cuda", binary);
  };
  EXPECT_EQ(command("/opt/env/lib/python3.11/site-packages/pysinter/_core.so"),
            "pip install 'some-package>=1,<2'");
  EXPECT_EQ(command("/usr/lib/libsinter.so.0.1"), "pip install 'some-package>=1,<2'");
  EXPECT_EQ(command(binary_dir() + "/bin/sinter"), source_dir() + "/tools/setup --cuda");
  // What pip finds by these names alone; no index has the package's own extras.
  EXPECT_THAT(std::string(libraries::cuda_packages()),
              ::testing::MatchesRegex("nvidia-cuda-nvrtc==[0-9.]+ nvidia-cublas==[0-9.]+"));
}

TEST(CudaLibraryTest, MissingEntryPointIsNamed) {
  const Error error = error_of(
      [] { runtime::CublasLt library([](const char*) -> void* { return nullptr; }, "some.so"); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("some.so"), HasSubstr("cublasLtCreate")));
}

TEST_F(CudaTest, LibrariesAreLoadedForTheirStepsOnly) {
  static bool asked;
  asked = false;
  const runtime::CudaEnvironment watched{&fake().driver(),
                                         [] {
                                           asked = true;
                                           return load_fake_cublaslt();
                                         },
                                         []() -> std::shared_ptr<const runtime::Cudnn> {
                                           asked = true;
                                           throw Error(ErrorCode::kDevice, "none");
                                         }};
  const auto data = chain_plan();
  const auto made = runtime::make_cuda_executor(watched, data, {});
  EXPECT_FALSE(asked);
  EXPECT_EQ(made->memory().workspace, 0u);
}

}  // namespace
}  // namespace sinter::testing
