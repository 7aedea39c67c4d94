# `make install`: the program with its manual pages and completions, the library, the public headers,
# and how pkg-config and CMake find them.
include(CMakePackageConfigHelpers)

install(TARGETS yoke EXPORT yokeTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/yoke DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
file(RELATIVE_PATH YOKE_LIB_FROM_BIN /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
if(TARGET yoke_program)
  set_target_properties(yoke_program PROPERTIES
    INSTALL_RPATH "$ORIGIN/${YOKE_LIB_FROM_BIN}")
  install(TARGETS yoke_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${YOKE_MANUAL}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${YOKE_MANUAL}/completions/yoke.bash RENAME yoke
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${YOKE_MANUAL}/completions/_yoke
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${YOKE_MANUAL}/completions/yoke.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/yoke)
configure_package_config_file(cmake/yokeConfig.cmake.in yokeConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(yokeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/yokeConfig.cmake ${PROJECT_BINARY_DIR}/yokeConfigVersion.cmake
        DESTINATION ${package_dir})
install(EXPORT yokeTargets NAMESPACE yoke:: DESTINATION ${package_dir})

# The .pc file finds its prefix from where it lies, so that an installed tree may be moved.
file(RELATIVE_PATH YOKE_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/yoke.pc.in yoke.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/yoke.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
