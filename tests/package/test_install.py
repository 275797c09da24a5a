"""An installed prefix and the Debian packages: whole, movable, usable by strangers' programs, able to answer."""

import glob
import os
import re
import stat

from fixture import BUILD, STORIES, FolderCase, clean_environment, main, read, run, tell_story, write

CONSUMER = """#include <ruvllm.h>
#include <stdio.h>

int main(void)
{
    puts(ruvllm_version());
    return 0;
}
"""
CONSUMER_CMAKE = """cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(ruvllm 0.1 REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer ruvllm::ruvllm)
"""
# The distribution's own rule for what may be missing on a machine: nothing that the packages do not name.
PRIVATE = re.compile(r"lib(ggml|llama|yyjson|llhttp)")


def commands(program):
    text = run(program, "help", env=clean_environment()).stdout
    return re.findall(r"^  ([a-z]+) +\S", text[text.index("\nCommands\n"):text.index("\nEnvironment")], re.M)


def check_tree(case, prefix):
    """What belongs to the program, below a prefix."""
    program = os.path.join(prefix, "bin", "ruvllm")
    for name in commands(program):
        if name not in ("version", "help"):
            case.assertTrue(glob.glob(prefix + "/share/man/man1/ruvllm-%s.1*" % name), name)
    for path in ("share/man/man1/ruvllm.1", "share/man/man7/ruvllm.7", "share/bash-completion/completions/ruvllm",
                 "share/zsh/site-functions/_ruvllm", "share/fish/vendor_completions.d/ruvllm.fish",
                 "lib/systemd/system/ruvllm.service", "lib/systemd/system/ruvllm.socket", "lib/sysusers.d/ruvllm.conf",
                 "share/doc/ruvllm/copyright", "share/doc/ruvllm/examples/nginx.conf"):
        case.assertTrue(glob.glob(os.path.join(prefix, path) + "*"), path)
    for line in run("ldd", program, env=clean_environment()).stdout.split("\n"):
        case.assertNotIn("not found", line)
        if PRIVATE.search(line.split("=>")[0]) and os.path.isdir(prefix + "/lib/ruvllm"):
            case.assertIn(os.path.realpath(prefix), os.path.realpath(line.split("=>")[1].split(" (")[0].strip()))


class Prefix(FolderCase):
    def setUp(self):
        super().setUp()
        first = os.path.join(self.folder, "first")
        run("cmake", "--install", BUILD, "--prefix", first)
        self.service = read(first, "lib/systemd/system/ruvllm.service")
        self.prefix = os.path.join(self.folder, "moved")
        os.rename(first, self.prefix)

    def test_prefix_is_whole_and_can_be_moved(self):
        check_tree(self, self.prefix)
        self.assertIn("ExecStart=%s/first/bin/ruvllm serve" % self.folder, self.service)
        self.assertGreater(len(tell_story(os.path.join(self.prefix, "bin", "ruvllm"))), 10)
        link = os.path.join(self.prefix, "lib", "libruvllm.so")
        self.assertEqual(os.readlink(link), "libruvllm.so.0")

        # Programs of others, by both descriptions.
        source = write(os.path.join(self.folder, "consumer.c"), CONSUMER)
        environment = clean_environment(PKG_CONFIG_PATH=os.path.join(self.prefix, "lib/pkgconfig"))
        flags = run("pkg-config", "--cflags", "--libs", "ruvllm", env=environment).stdout.split()
        run("cc", "-std=c99", "-Wall", "-Werror", source, "-o", self.folder + "/by_pkg_config", *flags,
            "-Wl,-rpath," + self.prefix + "/lib")
        write(os.path.join(self.folder, "CMakeLists.txt"), CONSUMER_CMAKE)
        run("cmake", "-S", self.folder, "-B", self.folder + "/build", "-G", "Ninja", "-DCMAKE_PREFIX_PATH=" + self.prefix)
        run("cmake", "--build", self.folder + "/build")
        version = run(os.path.join(self.prefix, "bin", "ruvllm"), "version", env=clean_environment()).stdout
        for program in ("by_pkg_config", "build/consumer"):
            said = run(os.path.join(self.folder, program), env=clean_environment()).stdout
            self.assertEqual("ruvllm " + said, version)


class Packages(FolderCase):
    def test_packages_unpack_into_a_program_that_answers(self):
        run("cpack", "-G", "DEB", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", "-B", self.folder + "/out", cwd=BUILD)
        packages = {os.path.basename(p).split("_")[0]: p for p in glob.glob(self.folder + "/out/*.deb")}
        self.assertEqual(set(packages), {"ruvllm", "libruvllm-dev"})
        root = self.folder + "/root"
        run("dpkg-deb", "-x", packages["ruvllm"], root)
        check_tree(self, root + "/usr")
        self.assertGreater(len(tell_story(root + "/usr/bin/ruvllm")), 10)
        self.assertIn("ExecStart=/usr/bin/ruvllm serve", read(root, "usr/lib/systemd/system/ruvllm.service"))
        self.assertFalse(os.path.exists(root + "/usr/include"), "headers belong to the other package")

        fields = run("dpkg-deb", "-f", packages["ruvllm"], "Depends", "Maintainer", "Section").stdout
        for library in ("libc6", "libcurl", "libsqlite3", "libpcre2", "libsodium", "libedit2", "libevent-core", "libssl"):
            self.assertIn(library, fields)
        self.check_modes(root)
        self.assertTrue(os.path.exists(root + "/usr/share/man/man1/ruvllm.1.gz"))
        self.assertTrue(os.path.exists(root + "/usr/share/doc/ruvllm/changelog.gz"))

        run("dpkg-deb", "-x", packages["libruvllm-dev"], self.folder + "/dev")
        self.assertIn("ruvllm (= ", run("dpkg-deb", "-f", packages["libruvllm-dev"], "Depends").stdout)
        self.assertTrue(os.path.islink(self.folder + "/dev/usr/lib/libruvllm.so"))
        run("dpkg-deb", "-e", packages["ruvllm"], self.folder + "/control")
        for script in ("postinst", "prerm", "postrm"):
            run("sh", "-n", os.path.join(self.folder, "control", script))

    def check_modes(self, root):
        """Nobody but root may change what is installed; what is data is not run."""
        for folder, _, names in os.walk(root + "/usr"):
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o755, folder)
            for name in names:
                path = os.path.join(folder, name)
                wanted = 0o755 if folder.endswith("/bin") else 0o644
                if not os.path.islink(path):
                    self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), wanted, path)


if __name__ == "__main__":
    main(STORIES, os.path.join(BUILD, "cmake_install.cmake"))
