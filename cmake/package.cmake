# package.cmake -- files by which other build systems find an installed forgec: a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)
# The package finds a program for the build machine, so it is installed where architecture-independent packages are.
set(FORGEC_PACKAGE_DIR "${CMAKE_INSTALL_DATADIR}/cmake/forgec")
configure_package_config_file(cmake/forgecConfig.cmake.in "${CMAKE_BINARY_DIR}/package/forgecConfig.cmake"
  INSTALL_DESTINATION "${FORGEC_PACKAGE_DIR}" PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/package/forgecConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES cmake/forgec.cmake cmake/large-weights.ld "${CMAKE_BINARY_DIR}/package/forgecConfig.cmake" "${CMAKE_BINARY_DIR}/package/forgecConfigVersion.cmake"
  DESTINATION "${FORGEC_PACKAGE_DIR}")

set(FORGEC_PC_DIR "${CMAKE_INSTALL_DATADIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_BINDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_DATADIR}")
  set(FORGEC_PC_BINDIR "${CMAKE_INSTALL_FULL_BINDIR}")
else()                                                   # relative: the tree can be moved, and --prefix can be given at install time
  file(RELATIVE_PATH up "/prefix/${FORGEC_PC_DIR}" /prefix)
  set(FORGEC_PC_BINDIR "\${pcfiledir}/${up}${CMAKE_INSTALL_BINDIR}")
endif()
configure_file(cmake/forgec.pc.in "${CMAKE_BINARY_DIR}/package/forgec.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/package/forgec.pc" DESTINATION "${FORGEC_PC_DIR}")

# ---- the manual page: docs/forgec.1 with the version in its title ----
file(READ docs/forgec.1 manual)
string(REPLACE ".TH FORGEC 1 \"\" \"forgec\"" ".TH FORGEC 1 \"\" \"forgec ${PROJECT_VERSION}\"" manual "${manual}")
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/package/forgec.1" CONTENT "${manual}" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS docs/forgec.1)
install(FILES "${CMAKE_BINARY_DIR}/package/forgec.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")

# ---- cpack: a tarball and, if dpkg is installed, a .deb; ./setup.sh package builds forgec and calls cpack ----
# In a build with tests, cpack would first build all tests; so there it packs what is already built.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ${FORGEC_TESTS})
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" system)
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME forgec)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_VENDOR "the forgec authors")
set(CPACK_PACKAGE_CONTACT "the forgec authors <forgec@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "forgec reads one GGUF file and writes one executable, library or web page that runs this model
on one kind of machine: x86-64, aarch64, AMD and NVIDIA GPUs, WebAssembly and WebGPU. It compiles models with
clang and lld, version 19 or newer, and needs neither ROCm nor CUDA to do so.")
set(CPACK_PACKAGE_FILE_NAME "forgec-${PROJECT_VERSION}-${system}")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
find_program(FORGEC_SHLIBDEPS dpkg-shlibdeps)
if(FORGEC_SHLIBDEPS)
  list(APPEND CPACK_GENERATOR DEB)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION devel)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)                 # depends on the libraries, and on the glibc version that the binary needs
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)          # libgfxsim.so is forgec's own
  # Recommends instead of Depends: a clang that was not installed as a package works too. Programs need the C library's headers; programs
  # with a server need libevent.
  foreach(v RANGE 19 29)
    list(APPEND clang clang-${v})
    list(APPEND lld lld-${v})
  endforeach()
  list(JOIN clang " | " clang)
  list(JOIN lld " | " lld)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "${clang}, ${lld}, libc6-dev, libevent-dev")
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "qemu-user")
endif()
include(CPack)
