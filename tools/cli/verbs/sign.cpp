// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <vector>

#include <sinter/plan.h>

#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "runtime/signature/signature.h"
#include "tools/cli/verbs/verbs.h"

namespace sinter::tools {
namespace {

struct SignArguments {
  std::string plan, key, output, new_key;
};

void write_file(const std::string& path, std::span<const std::byte> bytes, const char* what,
                mode_t mode = 0666) {
  files::OutputFile file(path, {.what = what, .mode = mode});
  file.write(bytes);
  file.commit();
}

/// Writes a key pair; only the owner may read the private key.
void make_key(const std::string& path, const Console& console) {
  const signature::Key secret = signature::new_private_key();
  const std::string own = signature::private_pem(secret),
                    open = signature::public_pem(signature::public_of(secret));
  write_file(path, std::as_bytes(std::span(own)), "the private key", 0600);
  write_file(path + ".pub", std::as_bytes(std::span(open)), "the public key");
  console.print(
      "{}: the private key, which stays yours; {}.pub: the public one, for "
      "--require-signature",
      path, path);
  console.result({{"private_key", path}, {"public_key", path + ".pub"}});
}

std::vector<std::byte> read_file(const std::string& path) {
  const files::InputFile file = files::open_input(path);
  if (!file.problem.empty())
    throw file.error(path, fmt::format("cannot open '{}': {}", path, file.problem));
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
  bytes.resize(files::read_some(file.descriptor, bytes, path));
  return bytes;
}

void run_sign(const SignArguments& options, const Console& console) {
  if (!options.new_key.empty()) {
    if (!options.plan.empty() || !options.key.empty())
      throw usage_error("--new-key makes a pair of keys, and signs no plan");
    return make_key(options.new_key, console);
  }
  if (options.plan.empty() || options.key.empty())
    throw usage_error("a plan and --key FILE are needed; --new-key FILE makes a pair of keys");
  const signature::Key secret = signature::private_key(options.key);
  const std::vector<std::byte> plan = read_file(options.plan);
  Plan::from_memory(plan);  // checks that the plan is valid before signing
  const std::string& path = options.output.empty() ? options.plan : options.output;
  write_file(path, signature::signed_plan(plan, secret), "the plan");
  console.print("{}: signed", path);
  console.result({{"path", path}});
}

}  // namespace

void add_sign(Cli& cli) {
  auto options = std::make_shared<SignArguments>();
  auto* verb = cli.app.add_subcommand(
      "sign", "Sign a plan (Ed25519), for those who load it with --require-signature");
  verb->add_option("plan", options->plan, "Plan file");
  verb->group("Keys and output");
  verb->add_option("--key FILE", options->key,
                   "File of the private key, as --new-key or `openssl genpkey -algorithm ed25519` "
                   "makes it");
  verb->add_option("-o,--output FILE", options->output, "Signed plan (default: in place)");
  verb->add_option("--new-key FILE", options->new_key,
                   "Make a pair of keys instead: this file, and FILE.pub");
  verb->example("sinter sign --new-key own.key", "a pair of keys: own.key and own.key.pub");
  verb->example("sinter sign model.plan --key own.key -o signed.plan");
  verb->callback([options, &console = cli.console] { run_sign(*options, console); });
}

}  // namespace sinter::tools
