# package.cmake -- what others find of an installed forgec: a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)
# It finds a program for the machine that builds, so it lies where packages of no architecture do.
set(FORGEC_PACKAGE_DIR "${CMAKE_INSTALL_DATADIR}/cmake/forgec")
configure_package_config_file(cmake/forgecConfig.cmake.in "${CMAKE_BINARY_DIR}/package/forgecConfig.cmake"
  INSTALL_DESTINATION "${FORGEC_PACKAGE_DIR}" PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/package/forgecConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES cmake/forgec.cmake "${CMAKE_BINARY_DIR}/package/forgecConfig.cmake" "${CMAKE_BINARY_DIR}/package/forgecConfigVersion.cmake"
  DESTINATION "${FORGEC_PACKAGE_DIR}")

set(FORGEC_PC_DIR "${CMAKE_INSTALL_DATADIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_BINDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_DATADIR}")
  set(FORGEC_PC_BINDIR "${CMAKE_INSTALL_FULL_BINDIR}")
else()                                                   # relative: the tree may be moved, and --prefix given at install time
  file(RELATIVE_PATH up "/prefix/${FORGEC_PC_DIR}" /prefix)
  set(FORGEC_PC_BINDIR "\${pcfiledir}/${up}${CMAKE_INSTALL_BINDIR}")
endif()
configure_file(cmake/forgec.pc.in "${CMAKE_BINARY_DIR}/package/forgec.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/package/forgec.pc" DESTINATION "${FORGEC_PC_DIR}")
